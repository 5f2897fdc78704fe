"""The plan of a queue program: what each task does, decided once for all code targets.

`plan_program` makes a `ProgramPlan` of plain dataclasses: for each family of tasks its waits, row
ranges, tiles, guard, kernel call, signals and credits, and the named numbers of the task table.
Programs that cannot be lowered are refused here. The code targets and the task table print the
plan; they decide nothing.
"""
