/* Facts about memory, page cache, O_DIRECT and io_uring, and the rules that choose a way from
   them. */
#include "loaders/local/reader_choose.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/machine.h"

enum { SAMPLES = 64 /* bytes of each file that are looked up in the page cache */ };

const char *mr_uring_refused_text(int refused, char *text, size_t n) {
  if (refused == MR_URING_NOT_BUILT_IN)
    snprintf(text, n, "io_uring is not built in (liburing-dev, -DMILLRACE_WITH_URING=ON)");
  else
    snprintf(text, n, "io_uring is refused (%s)", strerror(refused));
  return text;
}

/* statx reports the alignment since Linux 6.1; before that, a page suits every device. */
static int direct_align(int fd) {
#ifdef STATX_DIOALIGN
  struct statx st;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN)) {
    unsigned most = st.stx_dio_offset_align > st.stx_dio_mem_align ? st.stx_dio_offset_align
                                                                   : st.stx_dio_mem_align;
    return most <= 1 << 16 ? (int)most : 0;
  }
#endif
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) < 0) return 0;
  return fcntl(fd, F_SETFL, flags) < 0 ? 0 : 4096;
}

int mr_reader_direct_align(const int *fd, int n_files) {
  int most = 1;
  for (int i = 0; i < n_files && most; i++) {
    int align = direct_align(fd[i]);
    most = align == 0 ? 0 : align > most ? align : most;
  }
  return most;
}

/* The number of samples in the page cache.  A probe may itself bring a page in, so each call probes
   other pages. */
static int count_cached_samples(int fd, int64_t size) {
  static atomic_uint looks; /* relaxed: a counter that orders nothing */
  double shift = fmod(0.618034 * atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed), 1);
  int got = 0;
  for (int i = 0; i < SAMPLES; i++) {
    char byte;
    struct iovec v = {&byte, 1};
    got += preadv2(fd, &v, 1, (off_t)((double)size * (i + shift) / SAMPLES), RWF_NOWAIT) == 1;
  }
  return got;
}

int64_t mr_memory_available(void) { return (int64_t)mr_machine_memory_left(); }

void mr_reader_facts(const int *fd, int n_files, mr_reader_facts_t *out) {
  struct stat st;
  double cached = 0;
  *out = (mr_reader_facts_t){
      .uring_errno = mr_uring_refused(), .available = mr_memory_available(), .direct_align = 1};
  for (int i = 0; i < n_files; i++) {
    int align = direct_align(fd[i]);
    if (align == 0 || out->direct_align == 0)
      out->direct_align = 0;
    else if (align > out->direct_align)
      out->direct_align = align;
    if (fstat(fd[i], &st) < 0 || st.st_size == 0) continue;
    out->bytes += st.st_size;
    cached += (double)st.st_size * count_cached_samples(fd[i], st.st_size) / SAMPLES;
  }
  out->cached = out->bytes ? cached / (double)out->bytes : 1;
}

static mr_read_way_t pick_way(mr_read_way_t b, char *why, const char *reason) {
  snprintf(why, MR_READER_WHY, "%s", reason);
  return b;
}

mr_read_way_t mr_reader_choose(const mr_reader_facts_t *f, bool once, char *why) {
  bool large = f->available && f->bytes > f->available / 2;
  char refused[MR_URING_REFUSED_MAX];
  if (f->uring_errno) {
    snprintf(why, MR_READER_WHY, "%s: a pool of 32 threads keeps the device busy",
             mr_uring_refused_text(f->uring_errno, refused, sizeof refused));
    return MR_READ_PREAD;
  }
  if (!once && f->cached >= 0.97)
    return pick_way(MR_READ_MMAP, why,
                    "the page cache holds the files, and copying is all it takes");
  if (f->direct_align && f->cached < 0.5 && large)
    return pick_way(MR_READ_DIRECT, why,
                    "the files are larger than half of the free memory and hardly cached: the page "
                    "cache would only be in the way");
  if (f->cached >= 0.97)
    return pick_way(MR_READ_URING, why,
                    "the page cache holds the files, read once in large pieces");
  return pick_way(MR_READ_URING, why,
                  "many reads in flight, and the page cache keeps what it has room for");
}
