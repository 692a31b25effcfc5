/* usage: test_ranks_nccl_device library | DEVICE
   The real NCCL.  library: opens it, which needs no GPU, and writes its version; two unique ids
   must differ.  DEVICE, "cuda": one rank makes every call there, and an abort ends a communicator;
   status 77 where device or library are missing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/exec/device.h"
#include "ranks/job.h"
#include "ranks/nccl.h"

enum { N = 1000 };

static int wrong(const char *what) { return fprintf(stderr, "nccl: %s\n", what), 1; }

static int check_library(void) {
  const mr__nccl_t *nccl;
  mr__nccl_id_t id[2];
  mr_diag_t diag = {0};
  if (mr__nccl(&nccl, &diag) < 0) return wrong(diag.text);
  for (int i = 0; i < 2; i++) {
    int result = nccl->ncclGetUniqueId(&id[i]);
    if (result) return wrong(nccl->ncclGetErrorString(result));
  }
  if (!memcmp(&id[0], &id[1], sizeof id[0])) return wrong("two unique ids are equal");
  printf("%d %s\n", nccl->version, nccl->path);
  return 0;
}

typedef struct operands {
  const mr_device_t *d;
  float host[N];
  float *in, *out; /* on the device */
} operands_t;

/* Whether the device's result is the operand, as every call of one rank gives; it is 0 then. */
static bool is_copy(operands_t *o) {
  static const float zeros[N];
  float got[N];
  mr_device_copy(o->d, got, o->out, sizeof got, MR_COPY_OUT);
  mr_device_copy(o->d, o->out, zeros, sizeof zeros, MR_COPY_IN);
  return !memcmp(got, o->host, sizeof got);
}

static const char *make_calls(operands_t *o, mr_collect_t *c) {
  const mr_collect_ops_t *ops = &mr_collect_nccl;
  static const mr_reduce_t how[] = {MR_REDUCE_SUM, MR_REDUCE_MAX, MR_REDUCE_MIN};
  for (int turn = 0; turn < 10; turn++) {
    for (int k = 0; k < 3; k++) {
      ops->all_reduce(c, how[k], MR_F32, N, o->in, o->out);
      if (!is_copy(o)) return "all_reduce";
    }
    ops->all_gather(c, sizeof o->host, o->in, o->out);
    if (!is_copy(o)) return "all_gather";
    ops->reduce_scatter(c, MR_F32, N, o->in, o->out);
    if (!is_copy(o)) return "reduce_scatter";
    ops->all_to_all(c, sizeof o->host, o->in, o->out);
    if (!is_copy(o)) return "all_to_all";
    ops->send_receive(c, 0, 0, sizeof o->host, o->in, o->out);
    if (!is_copy(o)) return "send_receive";
  }
  return NULL;
}

static const char *abort_one(operands_t *o) {
  const mr_collect_ops_t *ops = &mr_collect_nccl;
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  float got;
  int missing;
  if (ops->create(o->d, "aborted", 0, 1, 60, &c, &diag) < 0) return "create";
  ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, N, o->in, o->out);
  (*ops->abort)(c);
  ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, N, o->in, o->out);
  mr_device_copy(o->d, &got, o->out, sizeof got, MR_COPY_OUT);
  bool failed = ops->failed(c, &missing, &diag) == MR_ERR_UNAVAILABLE;
  ops->destroy(c);
  return failed && isnan(got) ? NULL : "abort";
}

static int check_device(const char *name) {
  operands_t o;
  const mr__nccl_t *nccl;
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  int missing;
  if (mr__nccl(&nccl, &diag) < 0 || mr_device_open(name, &o.d, &diag) < 0)
    return printf("skipped: %s\n", diag.text), 77;
  o.in = mr_device_take(o.d, sizeof o.host), o.out = mr_device_take(o.d, sizeof o.host);
  for (int i = 0; i < N; i++) o.host[i] = (float)(i * 37 % 101) / 7 - 5;
  if (!o.in || !o.out) return wrong("the device has no memory");
  mr_device_copy(o.d, o.in, o.host, sizeof o.host, MR_COPY_IN);
  mr_err_t e = mr_collect_nccl.create(o.d, "one", 0, 1, 60, &c, &diag);
  if (e == MR_ERR_CONFIG) return printf("skipped: %s\n", diag.text), 77; /* OpenCL's, say */
  if (e < 0) return wrong(diag.text);
  const char *bad = make_calls(&o, c);
  if (mr_collect_nccl.failed(c, &missing, &diag) < 0) return wrong(diag.text);
  mr_collect_nccl.destroy(c);
  if (!bad) bad = abort_one(&o);
  mr_device_give(o.d, o.in, sizeof o.host), mr_device_give(o.d, o.out, sizeof o.host);
  mr_device_close(o.d);
  if (bad) return wrong(bad);
  printf("one rank of %s by NCCL %d\n", name, nccl->version);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return wrong("want library, or a device");
  return strcmp(argv[1], "library") ? check_device(argv[1]) : check_library();
}
