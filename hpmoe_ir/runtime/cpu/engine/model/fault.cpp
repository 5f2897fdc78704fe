#include "model/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "model/engine.h"

namespace cpu_model {

constexpr int kFaultStatus = 10;
static std::string report_path;

void SetReportPath(const std::string& path) { report_path = path; }

std::string Format(const char* format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  va_end(arguments);
  return buffer;
}

std::string QuoteJson(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Location(Where where) {
  return where.line == 0 ? "" : Format("%s:%d", where.file, where.line);
}

[[noreturn]] static void Write(const char* kind, const std::string& message, Where where,
                               const Core* core, const std::string& waiting,
                               const std::string& members = "") {
  std::string text = "{\"kind\": " + QuoteJson(kind) + ", \"message\": " + QuoteJson(message) +
                     ", \"location\": " + QuoteJson(Location(where));
  if (core != nullptr) {
    text += Format(", \"rank\": %d, \"core\": %s, \"marker\": %lld", core->rank,
                   QuoteJson(core->Name()).c_str(), static_cast<long long>(core->marker));
  }
  text += members + ", \"waiting\": [" + waiting + "]}\n";
  const int file = open(report_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    _exit(2);
  }
  _exit(kFaultStatus);
}

void FailAt(const char* kind, const std::string& message, Where where, const Core* core,
            const std::string& members) {
  Write(kind, message, where, core, "", members);
}

void Fail(const char* kind, const std::string& message, Where where) {
  FailAt(kind, message, where, TheEngine().current);
}

static std::string WaitingEntry(const Core& core, const std::string& allocation, long long offset,
                                long long seen, long long memory, const std::string& reason) {
  return Format("{\"rank\": %d, \"core\": %s, \"marker\": %lld, ", core.rank,
                QuoteJson(core.Name()).c_str(), static_cast<long long>(core.marker)) +
         Format("\"allocation\": %s, \"offset\": %lld, ", QuoteJson(allocation).c_str(), offset) +
         Format("\"value\": %lld, \"memory\": %lld, \"reason\": %s, \"location\": %s}", seen,
                memory, QuoteJson(reason).c_str(), QuoteJson(Location(core.where)).c_str());
}

static std::string WaitingAt(const Core& core, uint64_t addr, long long seen, bool longer,
                             const char* reason) {
  int32_t now = 0;
  std::memcpy(&now, GlobalData(addr), 4);
  const Allocation* found = FindAllocation(addr);
  std::string allocation;
  long long offset = 0;
  if (found != nullptr) {
    allocation = found->name;
    offset = static_cast<long long>(addr - found->begin);
    if (found->rank != core.rank) allocation += Format(" of rank %d", found->rank);
  }
  return WaitingEntry(core, allocation, offset, longer ? now : seen, now, reason);
}

static std::string Waiting(const Core& core) {
  switch (core.wait) {
    case WaitKind::kPoll: {
      const Poll& poll = core.poll[(core.next_poll + kPolls - 1) % kPolls];
      // A DMA poll of more than a word is shown by its first word.
      return WaitingAt(core, poll.addr, static_cast<int32_t>(poll.value), poll.bytes > 8, core.api);
    }
    case WaitKind::kSignal:
      return WaitingAt(core, core.wait_addr, core.wait_value, false, core.api);
    case WaitKind::kSyncAll:
      return WaitingEntry(core, "SyncAll", core.wait_id, 0, 0, "SyncAll");
    default:
      return WaitingEntry(core, "cross-core flag", core.wait_id, 0, 0, "CrossCoreWaitFlag");
  }
}

void FailGivenUp(const Core& core, uint64_t addr, int32_t seen, const std::string& message,
                 Where where) {
  std::string waiting = WaitingAt(core, addr, seen, false, "a bounded wait");
  for (const auto& other : TheEngine().cores) {
    if (!other->running || other.get() == &core) continue;
    if (other->wait != WaitKind::kNone && other->wait != WaitKind::kClock) {
      waiting += ", " + Waiting(*other);
      continue;
    }
    // Not suspended, but in a polling loop.
    for (const Poll& poll : other->poll) {
      if (poll.effects != other->effects || poll.repeats == 0) continue;
      waiting += ", " + WaitingAt(*other, poll.addr, static_cast<int32_t>(poll.value),
                                  poll.bytes > 8, "a bounded wait");
      break;
    }
  }
  Write("wait", message, where, &core, waiting);
}

void FailDeadlock() {
  std::string waiting;
  const Core* first = nullptr;
  int count = 0;
  for (const auto& core : TheEngine().cores) {
    if (!core->running) continue;
    if (first == nullptr) first = core.get();
    waiting += (count++ == 0 ? "" : ", ") + Waiting(*core);
  }
  Write("deadlock", Format("no core can run: %d cores wait", count),
        first == nullptr ? Where("", 0) : first->where, first, waiting);
}

static void OnSignal(int number, siginfo_t* info, void*) {
  const Core* core = TheEngine().current;
  const Where where = core == nullptr ? Where("", 0) : core->where;
  const std::string last =
      core == nullptr ? "" : Format("; last call %s at %s", core->api, Location(where).c_str());
  if (number == SIGALRM) {
    Write("timeout", Format("no end after %d s%s", TheEngine().limits.seconds, last.c_str()), where,
          core, "");
  }
  std::string what = strsignal(number);
  if (number == SIGSEGV || number == SIGBUS) {
    what += " at " + DescribeAddress(reinterpret_cast<uint64_t>(info->si_addr));
  }
  Write("crash", "the kernel crashed: " + what + last, where, core, "");
}

void InstallSignalHandlers(int seconds) {
  static char stack[128 * 1024];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    sigaction(number, &action, nullptr);
  }
  if (seconds > 0) {
    struct itimerval timer = {};
    timer.it_value.tv_sec = seconds;
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
}

void Unsupported(const char* what, Where where) {
  Fail("unsupported", Format("the CPU model does not have %s", what), where);
}

}  // namespace cpu_model
