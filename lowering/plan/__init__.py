"""The plan of a queue program: the target-independent description of generated code.

`plan_program` builds a `ProgramPlan` of plain dataclasses: for each family of tasks its waits, row
ranges, tiles, guard, kernel call, signals and credits, and the named sizes of the task table.
Programs that cannot be lowered are refused here. The code targets and the task table only print
the plan.
"""
