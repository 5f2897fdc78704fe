// A fiber: a stack of its own that runs until it hands control back.
#ifndef CPU_MODEL_ENGINE_MODEL_FIBER_H_
#define CPU_MODEL_ENGINE_MODEL_FIBER_H_

#include <cstddef>

namespace cpu_model {

class Fiber {
 public:
  ~Fiber();

  // Makes `body(argument)` what the next Resume starts. The stack is kept between bodies.
  void Start(void (*body)(void*), void* argument);
  // Runs the fiber until it suspends itself or its body returns.
  void Resume();
  // Called on the fiber: back to whoever resumed it.
  void Suspend();
  bool done() const { return done_; }

 private:
  friend void FiberMain(Fiber* self);

  void* stack_ = nullptr;    // lowest byte, a guard page
  void* context_ = nullptr;  // the fiber's saved context
  void* caller_ = nullptr;   // the resumer's saved context
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_FIBER_H_
