/* The abilities of io_uring on this machine, tried with a small ring instead of being derived from
   the kernel's version: containers and security policies forbid it on kernels that have it. */
#include <liburing.h>

#include "apps/run/machine_report.h"

static const char *yes_or_no(bool b) { return b ? "yes" : "no"; }

void mr_report_ring(cJSON *s) {
  struct io_uring ring;
  char page[4096];
  struct iovec v = {page, sizeof page};
  int ops = 0;
  mr_report_say(s, "io_uring", "yes");
  if (io_uring_queue_init(128, &ring, 0) < 0) return;
  struct io_uring_probe *probe = io_uring_get_probe_ring(&ring);
  for (int i = 0; probe && i <= probe->last_op; i++) ops += io_uring_opcode_supported(probe, i);
  io_uring_free_probe(probe);
  cJSON_AddNumberToObject(s, "operations", ops);
  mr_report_say(s, "depth_128", "yes");
  mr_report_say(s, "registered_buffers", "%s",
                yes_or_no(io_uring_register_buffers(&ring, &v, 1) == 0));
  mr_report_say(s, "registered_files", "%s",
                yes_or_no(io_uring_register_files(&ring, (int[]){0}, 1) == 0));
  mr_report_say(s, "no_dropped_completions", "%s", yes_or_no(ring.features & IORING_FEAT_NODROP));
  mr_report_say(s, "fast_poll", "%s", yes_or_no(ring.features & IORING_FEAT_FAST_POLL));
  io_uring_queue_exit(&ring);
}
