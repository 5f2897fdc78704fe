// RUN: hpmoe-opt %s -t host | filecheck %s

// The numbers of the layer, and its interface with the caller's buffers by name. Tokens are the
// least that all buffers of token rows have room for; buffers of other rows are always needed.
queue.program @small ranks 2 machine "ascend-a3" counters at 1024 (@x, @scale) -> (@a, @status: status) {
  tile.buffer @x input : !tile.buffer<tokens 7 rows, 32xbf16>
  tile.buffer @scale input : !tile.buffer<3x5xf32>
  tile.buffer @a output : !tile.buffer<tokens 6 rows, 16xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 16xbf16>
  tile.buffer @h workspace at 512 : !tile.buffer<5x16xbf16>
  tile.tasks @swiglu (b) in (2) on aiv
    kernel "swiglu"
    reads @x[tokens(b of 2), :]
    writes @a[tokens(b of 2), :]
  queue.event @done () count 2 line 0
  queue.signal @swiglu (b) to @done ()
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [@swiglu[0]], [@swiglu[1]], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// CHECK:      #include "host.h"
// CHECK-EMPTY:
// CHECK-NEXT: #include "hpmoe_host/failure.h"
// CHECK-NEXT: #include "hpmoe_host/guard.h"
// CHECK-NEXT: #include "hpmoe_host/layer.h"
// CHECK-NEXT: #include "launch.h"
// CHECK-EMPTY:
// CHECK-NEXT: namespace {
// CHECK-EMPTY:
// CHECK-NEXT: const hpmoe_host::LayerPlan kPlan = {
// CHECK-NEXT:     "small",  // name
// CHECK-NEXT:     6,        // tokens of a rank
// CHECK-NEXT:     1024,     // bytes of workspace
// CHECK-NEXT:     1088,     // bytes of windows
// CHECK-NEXT:     // Header of the task table; any other table is refused.
// CHECK-NEXT:     {
// CHECK-NEXT:         0x544d5048,  // magic
// CHECK-NEXT:         1,           // version
// CHECK-NEXT:         576,         // bytes
// CHECK-NEXT:         2,           // ranks
// CHECK-NEXT:         24,          // blocks
// CHECK-NEXT:         1,           // families
// CHECK-NEXT:         1,           // events
// CHECK-NEXT:         2,           // tasks
// CHECK-NEXT:         64,          // sizes
// CHECK-NEXT:         6,           // size_count
// CHECK-NEXT:         128,         // thresholds
// CHECK-NEXT:         192,         // aic_queues
// CHECK-NEXT:         320,         // aiv_queues
// CHECK-NEXT:         16,          // counters
// CHECK-NEXT:         0x{{[0-9a-f]+}},  // checksum
// CHECK-NEXT:         0,           // reserved
// CHECK-NEXT:     },
// CHECK-NEXT: };
// CHECK-EMPTY:
// CHECK-NEXT: // Room to place the windows at a multiple of 512 bytes.
// CHECK-NEXT: constexpr uint64_t kAlignment = 512;
// CHECK-EMPTY:
// CHECK-NEXT: }  // namespace
// CHECK-EMPTY:
// CHECK-NEXT: struct small_handle : hpmoe_host::Layer {
// CHECK-NEXT:   using hpmoe_host::Layer::Layer;
// CHECK-NEXT: };
// CHECK-EMPTY:
// CHECK-NEXT: int small_create(const void* table, size_t table_bytes, small_handle** handle) {
// CHECK-NEXT:   return hpmoe_host::Guarded({{\[&\]}} {
// CHECK-NEXT:     hpmoe_host::Require(handle != nullptr, "small_create: handle: found a null pointer");
// CHECK-NEXT:     *handle = nullptr;
// CHECK-NEXT:     *handle = new small_handle(kPlan, table, table_bytes);
// CHECK-NEXT:   });
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: int small_launch(small_handle* handle, const small_arguments* arguments, uint32_t tokens,
// CHECK-NEXT:                  aclrtStream stream) {
// CHECK-NEXT:   return hpmoe_host::Guarded({{\[&\]}} {
// CHECK-NEXT:     hpmoe_host::Require(handle != nullptr, "small_launch: handle: found a null pointer");
// CHECK-NEXT:     hpmoe_host::Require(arguments != nullptr, "small_launch: arguments: found a null pointer");
// CHECK-NEXT:     handle->Launch(
// CHECK-NEXT:         {
// CHECK-NEXT:             {"x", arguments->x, true},
// CHECK-NEXT:             {"scale", arguments->scale, false},
// CHECK-NEXT:             {"a", arguments->a, true},
// CHECK-NEXT:         },
// CHECK-NEXT:         tokens, *arguments, stream, small_enqueue);
// CHECK-NEXT:   });
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: int small_status(small_handle* handle, aclrtStream stream) {
// CHECK-NEXT:   return hpmoe_host::Guarded({{\[&\]}} {
// CHECK-NEXT:     hpmoe_host::Require(handle != nullptr, "small_status: handle: found a null pointer");
// CHECK-NEXT:     handle->CheckStatus(stream);
// CHECK-NEXT:   });
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: int small_destroy(small_handle* handle) {
// CHECK-NEXT:   const int result = hpmoe_host::Guarded({{\[&\]}} {
// CHECK-NEXT:     if (handle != nullptr) handle->Close();
// CHECK-NEXT:   });
// CHECK-NEXT:   delete handle;
// CHECK-NEXT:   return result;
// CHECK-NEXT: }
// CHECK-EMPTY:
// CHECK-NEXT: const char* small_error(void) { return hpmoe_host::LastError().c_str(); }
// CHECK-EMPTY:
// CHECK-NEXT: uint64_t small_symmetric_bytes(void) { return kPlan.window_bytes + kAlignment; }
