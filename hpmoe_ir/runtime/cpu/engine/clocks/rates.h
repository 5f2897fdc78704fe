// Parameters of the machine that determine durations, in cycles of a core, bytes and nanoseconds.
#ifndef CPU_MODEL_ENGINE_CLOCKS_RATES_H_
#define CPU_MODEL_ENGINE_CLOCKS_RATES_H_

#include <string>

namespace cpu_model {

// The names are those of the machine description, section and key; the units are its units.
#define CPU_MODEL_RATES(X)                                                    \
  X(clock, frequency)           /* Hz, of a core */                           \
  X(clock, system_counter)      /* Hz, of GetSystemCycle */                   \
  X(matrix, mmad_head)          /* cycles */                                  \
  X(matrix, l1_to_l0a)          /* bytes a cycle */                           \
  X(matrix, l1_to_l0b)          /* bytes a cycle */                           \
  X(matrix, queue_depth)        /* instructions that a pipe's queue holds */  \
  X(vector, bytes_per_cycle)    /* bytes */                                   \
  X(vector, slow_elements)      /* elements a cycle of Exp, Ln, Div, Sqrt */  \
  X(vector, head)               /* cycles */                                  \
  X(vector, tail)               /* cycles */                                  \
  X(vector, floor)              /* cycles */                                  \
  X(scalar, call)               /* cycles of an API call */                   \
  X(scalar, local_access)       /* cycles of a scalar access to UB */         \
  X(scalar, cached_access)      /* cycles of a hit in the data cache */       \
  X(core_bandwidth, gm_to_ub)   /* bytes a second */                          \
  X(core_bandwidth, gm_to_l1)   /* bytes a second */                          \
  X(core_bandwidth, ub_to_gm)   /* bytes a second */                          \
  X(core_bandwidth, l0c_to_gm)  /* bytes a second */                          \
  X(core_bandwidth, link)       /* bytes a second, to or from another rank */ \
  X(shared_bandwidth, l2)       /* bytes a second */                          \
  X(shared_bandwidth, hbm)      /* bytes a second */                          \
  X(shared_bandwidth, link_out) /* bytes a second */                          \
  X(shared_bandwidth, link_in)  /* bytes a second */                          \
  X(dma, gm_to_ub_start)        /* cycles */                                  \
  X(dma, gm_to_l1_start)        /* cycles */                                  \
  X(dma, ub_to_gm_start)        /* cycles */                                  \
  X(dma, l0c_to_gm_start)       /* cycles */                                  \
  X(dma, granule)               /* bytes: unit of traffic with memory */      \
  X(latency, poll)              /* seconds: a scalar read of global memory */ \
  X(latency, write)             /* seconds: until a write is acknowledged */  \
  X(latency, remote_write)      /* seconds */                                 \
  X(latency, signal)            /* seconds: from signal to counter */         \
  X(latency, remote_signal)     /* seconds */                                 \
  X(latency, cross_core)        /* seconds: CrossCoreSetFlag, SyncAll */      \
  X(latency, launch)            /* seconds: start of a kernel */              \
  X(latency, host_sync)         /* seconds: host reads results of a kernel */ \
  X(latency, collective)        /* seconds: host synchronisation of ranks */  \
  X(l2, bytes)                  /* of all lines */                            \
  X(l2, line)                   /* bytes */

struct Rates {
#define FIELD(SECTION, KEY) double SECTION##_##KEY = -1;
  CPU_MODEL_RATES(FIELD)
#undef FIELD

  // False where there is no parameter of that name, "section.key".
  bool Set(const std::string& name, double value);
  // The first parameter that was not set; empty if all were.
  std::string Missing() const;

  double Ns(double cycles) const { return cycles * 1e9 / clock_frequency; }
  double Cycles(double ns) const { return ns * clock_frequency / 1e9; }
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_RATES_H_
