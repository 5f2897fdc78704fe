// The Ascend C basic API, as far as the CPU model has it. What is missing does not compile, or
// ends the run with a report: nothing is ignored.
#ifndef CPU_MODEL_KERNEL_OPERATOR_H_
#define CPU_MODEL_KERNEL_OPERATOR_H_

#include "cpu_model/copy.h"
#include "cpu_model/cube.h"
#include "cpu_model/sync.h"
#include "cpu_model/system.h"
#include "cpu_model/vector.h"

#endif  // CPU_MODEL_KERNEL_OPERATOR_H_
