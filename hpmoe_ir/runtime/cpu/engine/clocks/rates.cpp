#include "clocks/rates.h"

namespace cpu_model {

bool Rates::Set(const std::string& name, double value) {
#define ASSIGN(SECTION, KEY)       \
  if (name == #SECTION "." #KEY) { \
    SECTION##_##KEY = value;       \
    return true;                   \
  }
  CPU_MODEL_RATES(ASSIGN)
#undef ASSIGN
  return false;
}

std::string Rates::Missing() const {
#define CHECK(SECTION, KEY) \
  if (!(SECTION##_##KEY >= 0)) return #SECTION "." #KEY;
  CPU_MODEL_RATES(CHECK)
#undef CHECK
  return "";
}

}  // namespace cpu_model
