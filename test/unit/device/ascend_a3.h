// Memories of a core of ascend-a3, as generated source defines them.
#ifndef TEST_ASCEND_A3_H_
#define TEST_ASCEND_A3_H_

#define HPMOE_L0A_BYTES 65536
#define HPMOE_L0B_BYTES 65536
#define HPMOE_L0C_BYTES 131072
#define HPMOE_L1_BYTES 522240
#define HPMOE_UB_BYTES 187392

#endif  // TEST_ASCEND_A3_H_
