/* The reserve is a small array of descriptors on /dev/null; threads claim slots by atomic
   exchange. */
#include "base/fd_reserve.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

enum { KEPT = 8 };

static atomic_int kept[KEPT]; /* a descriptor plus 1; 0: none */

/* relaxed for the check alone; acq_rel for the exchanges: one thread takes and closes each. */
void mr_fd_reserve(void) {
  for (int i = 0; i < KEPT; i++) {
    int none = 0;
    if (atomic_load_explicit(&kept[i], memory_order_relaxed)) continue;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!atomic_compare_exchange_strong_explicit(&kept[i], &none, fd + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
      close(fd);
  }
}

bool mr_fd_release(void) {
  for (int i = 0; i < KEPT; i++) {
    int fd = atomic_exchange_explicit(&kept[i], 0, memory_order_acq_rel) - 1;
    if (fd >= 0) return close(fd), true;
  }
  return false;
}
