#include "model/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// This switch avoids the system calls that ucontext makes each time.
#if defined(__x86_64__) && !defined(CPU_MODEL_UCONTEXT)
#define CPU_MODEL_ASM_SWITCH
#else
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cpu_model {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = 1024 * 1024;  // frames have redzones
#else
constexpr size_t kStackBytes = 256 * 1024;
#endif
constexpr size_t kGuardBytes = 64 * 1024;

// The address sanitizer has to be informed of each change of stacks.
#if defined(__SANITIZE_ADDRESS__)
static const void* caller_stack = nullptr;
static size_t caller_bytes = 0;
static void LeaveFor(void** fake, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, stack, bytes);
}
static void ArriveOnFiber(void* fake) {
  __sanitizer_finish_switch_fiber(fake, &caller_stack, &caller_bytes);
}
static void ArriveBack(void* fake) { __sanitizer_finish_switch_fiber(fake, nullptr, nullptr); }
#else
static const void* caller_stack = nullptr;
static size_t caller_bytes = 0;
static void LeaveFor(void**, const void*, size_t) {}
static void ArriveOnFiber(void*) {}
static void ArriveBack(void*) {}
#endif

void FiberMain(Fiber* self) {
  ArriveOnFiber(nullptr);
  self->body_(self->argument_);
  self->done_ = true;
  self->Suspend();
}

static void* NewStack() {
  void* stack = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kGuardBytes, PROT_NONE) != 0) {
    std::perror("cpu model: no memory for a fiber's stack");
    std::exit(2);
  }
  return stack;
}

Fiber::~Fiber() {
  if (stack_ != nullptr) munmap(stack_, kStackBytes + kGuardBytes);
#if !defined(CPU_MODEL_ASM_SWITCH)
  delete static_cast<ucontext_t*>(context_);
  delete static_cast<ucontext_t*>(caller_);
#endif
}

#if defined(CPU_MODEL_ASM_SWITCH)

// Saves the callee-saved registers and the stack pointer in *from, takes those of `to`.
extern "C" void CpuModelSwitch(void** from, void* to);
asm(R"(
.text
.globl CpuModelSwitch
.type CpuModelSwitch, @function
CpuModelSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size CpuModelSwitch, .-CpuModelSwitch
.globl CpuModelTrampoline
.type CpuModelTrampoline, @function
CpuModelTrampoline:
  movq %r12, %rdi
  callq *%rbx
  ud2
.size CpuModelTrampoline, .-CpuModelTrampoline
)");
extern "C" void CpuModelTrampoline();

void Fiber::Start(void (*body)(void*), void* argument) {
  if (stack_ == nullptr) stack_ = NewStack();
  body_ = body;
  argument_ = argument;
  done_ = false;
  auto* top = reinterpret_cast<uint64_t*>(static_cast<char*>(stack_) + kStackBytes + kGuardBytes);
  top -= 2;  // the trampoline starts with an aligned stack
  *--top = reinterpret_cast<uint64_t>(&CpuModelTrampoline);
  *--top = 0;                                       // rbp
  *--top = reinterpret_cast<uint64_t>(&FiberMain);  // rbx
  *--top = reinterpret_cast<uint64_t>(this);        // r12
  *--top = 0;                                       // r13
  *--top = 0;                                       // r14
  *--top = 0;                                       // r15
  context_ = top;
}

void Fiber::Resume() {
  void* fake = nullptr;
  LeaveFor(&fake, static_cast<char*>(stack_) + kGuardBytes, kStackBytes);
  CpuModelSwitch(&caller_, context_);
  ArriveBack(fake);
}

void Fiber::Suspend() {
  void* fake = nullptr;
  LeaveFor(&fake, caller_stack, caller_bytes);
  CpuModelSwitch(&context_, caller_);
  ArriveOnFiber(fake);
}

#else

static void ContextMain(uint32_t high, uint32_t low) {
  FiberMain(reinterpret_cast<Fiber*>((uint64_t{high} << 32) | low));
}

void Fiber::Start(void (*body)(void*), void* argument) {
  if (stack_ == nullptr) stack_ = NewStack();
  if (context_ == nullptr) context_ = new ucontext_t;
  if (caller_ == nullptr) caller_ = new ucontext_t;
  body_ = body;
  argument_ = argument;
  done_ = false;
  auto* context = static_cast<ucontext_t*>(context_);
  getcontext(context);
  context->uc_stack.ss_sp = static_cast<char*>(stack_) + kGuardBytes;
  context->uc_stack.ss_size = kStackBytes;
  context->uc_link = nullptr;
  const uint64_t self = reinterpret_cast<uint64_t>(this);
  makecontext(context, reinterpret_cast<void (*)()>(&ContextMain), 2,
              static_cast<uint32_t>(self >> 32), static_cast<uint32_t>(self));
}

void Fiber::Resume() {
  void* fake = nullptr;
  LeaveFor(&fake, static_cast<char*>(stack_) + kGuardBytes, kStackBytes);
  swapcontext(static_cast<ucontext_t*>(caller_), static_cast<ucontext_t*>(context_));
  ArriveBack(fake);
}

void Fiber::Suspend() {
  void* fake = nullptr;
  LeaveFor(&fake, caller_stack, caller_bytes);
  swapcontext(static_cast<ucontext_t*>(context_), static_cast<ucontext_t*>(caller_));
  ArriveOnFiber(fake);
}

#endif

}  // namespace cpu_model
