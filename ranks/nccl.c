/* Opens NCCL once, as the other libraries of CUDA are opened, and refuses a version without the
   calls that do not block: a rank that never comes would block the others forever. */
#include "ranks/nccl.h"

#include <pthread.h>

#include "base/library.h"
#include "model/backends/cuda/find.h"

static struct {
  pthread_once_t once;
  mr__nccl_t own;
  const char *missing; /* a call that the library lacks; "" without a library, NULL: all is there */
} nccl2 = {.once = PTHREAD_ONCE_INIT};

#define CALL(name) \
  { #name, offsetof(mr__nccl_t, name) }
static const mr_library_call_t calls[] = {CALL(ncclGetVersion),
                                          CALL(ncclGetUniqueId),
                                          CALL(ncclGetErrorString),
                                          CALL(ncclGetLastError),
                                          CALL(ncclCommInitRankConfig),
                                          CALL(ncclCommFinalize),
                                          CALL(ncclCommDestroy),
                                          CALL(ncclCommAbort),
                                          CALL(ncclCommGetAsyncError),
                                          CALL(ncclGroupStart),
                                          CALL(ncclGroupEnd),
                                          CALL(ncclAllReduce),
                                          CALL(ncclAllGather),
                                          CALL(ncclReduceScatter),
                                          CALL(ncclSend),
                                          CALL(ncclRecv),
                                          {0}};
#undef CALL

static void nccl_open(void) {
  static const char *const names[] = {"libnccl.so.2", NULL};
  mr__nccl_t *c = &nccl2.own;
  void *lib = mr__cuda_find(names, c->path, sizeof c->path);
  nccl2.missing = mr_library_calls(lib, calls, c);
  if (c->ncclGetVersion) c->ncclGetVersion(&c->version); /* an old one lacks calls, too */
}

#define WANTED "communicator=nccl: "
#define INSTALL "(Python's nvidia-nccl-cu12 is enough)"

mr_err_t mr__nccl_fits(int version, const char *path, mr_diag_t *diag) {
  int major = version < 10000 ? version / 1000 : version / 10000;
  int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  if (version >= MR_NCCL_LEAST) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, WANTED "%s is NCCL %d.%d, want 2.18 or newer " INSTALL,
                 path, major, minor);
}

mr_err_t mr__nccl(const mr__nccl_t **nccl, mr_diag_t *diag) {
  pthread_once(&nccl2.once, nccl_open);
  const mr__nccl_t *c = &nccl2.own;
  if (nccl2.missing && !*nccl2.missing && *c->path)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, WANTED "NCCL cannot be loaded (%s)", c->path);
  if (nccl2.missing && !*nccl2.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   WANTED "libnccl.so.2 is not found: install NCCL 2.18 or newer " INSTALL
                          ", or name its folder in MILLRACE_CUDA_LIBRARIES");
  if (c->version) MR_TRY(mr__nccl_fits(c->version, c->path, diag));
  if (nccl2.missing)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, WANTED "%s lacks %s, want NCCL 2.18 or newer", c->path,
                   nccl2.missing);
  return *nccl = c, MR_OK;
}
