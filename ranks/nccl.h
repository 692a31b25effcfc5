/* NCCL, opened at run time: its calls through a table.  Its interface is declared here, so that a
   build needs none of NVIDIA's headers; values and structures are those of nccl.h, which only
   grows. */
#ifndef MR_RANKS_NCCL_H
#define MR_RANKS_NCCL_H

#include <limits.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct ncclComm *mr__nccl_comm_t;
typedef struct mr__nccl_id {
  char bytes[128];
} mr__nccl_id_t;

/* ncclResult_t */
enum { MR_NCCL_SUCCESS = 0, MR_NCCL_REMOTE_ERROR = 6, MR_NCCL_IN_PROGRESS = 7 };
/* ncclDataType_t */
enum {
  MR_NCCL_I8 = 0,
  MR_NCCL_U8 = 1,
  MR_NCCL_I32 = 2,
  MR_NCCL_U32 = 3,
  MR_NCCL_I64 = 4,
  MR_NCCL_U64 = 5,
  MR_NCCL_F16 = 6,
  MR_NCCL_F32 = 7,
  MR_NCCL_F64 = 8,
  MR_NCCL_BF16 = 9
};
/* ncclRedOp_t */
enum { MR_NCCL_SUM = 0, MR_NCCL_MAX = 2, MR_NCCL_MIN = 3 };

/* ncclConfig_t as of NCCL 2.18: later versions take it as one whose later members are not set. */
typedef struct mr__nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share;
} mr__nccl_config_t;

enum { MR_NCCL_LEAST = 21800 /* 2.18 */ };
#define MR_NCCL_CONFIG                                                                        \
  {                                                                                           \
    sizeof(mr__nccl_config_t), 0xcafebeef, MR_NCCL_LEAST, 0, INT_MIN, INT_MIN, INT_MIN, NULL, \
        INT_MIN                                                                               \
  }

typedef struct mr__nccl {
  int (*ncclGetVersion)(int *version);
  int (*ncclGetUniqueId)(mr__nccl_id_t *id);
  const char *(*ncclGetErrorString)(int result);
  const char *(*ncclGetLastError)(mr__nccl_comm_t comm);
  int (*ncclCommInitRankConfig)(mr__nccl_comm_t *comm, int size, mr__nccl_id_t id, int rank,
                                mr__nccl_config_t *config);
  int (*ncclCommFinalize)(mr__nccl_comm_t comm);
  int (*ncclCommDestroy)(mr__nccl_comm_t comm);
  int (*ncclCommAbort)(mr__nccl_comm_t comm);
  int (*ncclCommGetAsyncError)(mr__nccl_comm_t comm, int *error);
  int (*ncclGroupStart)(void);
  int (*ncclGroupEnd)(void);
  int (*ncclAllReduce)(const void *in, void *out, size_t n, int type, int op, mr__nccl_comm_t comm,
                       void *stream);
  int (*ncclAllGather)(const void *in, void *out, size_t n, int type, mr__nccl_comm_t comm,
                       void *stream);
  int (*ncclReduceScatter)(const void *in, void *out, size_t n, int type, int op,
                           mr__nccl_comm_t comm, void *stream);
  int (*ncclSend)(const void *in, size_t n, int type, int peer, mr__nccl_comm_t comm, void *stream);
  int (*ncclRecv)(void *out, size_t n, int type, int peer, mr__nccl_comm_t comm, void *stream);
  int version;    /* 22304 is 2.23.4 */
  char path[512]; /* its file */
} mr__nccl_t;

/* Points *nccl at the table, which is static.  MR_OK; MR_ERR_UNAVAILABLE if there is no library,
   one that cannot be loaded, that is older than 2.18 or that lacks a call: the sentence says which,
   and what to install.  Any thread; the first call loads the library. */
mr_err_t mr__nccl(const mr__nccl_t **nccl, mr_diag_t *diag);

/* Whether this version is taken: MR_OK, or MR_ERR_UNAVAILABLE as above.  Pure. */
mr_err_t mr__nccl_fits(int version, const char *path, mr_diag_t *diag);

struct mr_collect_ops;
/* The table by which the ranks of a communicator get its unique id, and tell each other of a
   failure: a job's own, or threads, as at first.  Not while there are communicators. */
void mr__nccl_carry(const struct mr_collect_ops *by);

MR_END_DECLS

#endif
