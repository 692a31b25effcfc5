/* How parameters are shared among ranks: neighbours, each whole, so that what an optimizer computes
   of one parameter (a norm, a draw for each element) is computed by one rank as by one alone. */
#include "model/optim/optim.h"

typedef struct list {
  int n;
  int64_t (*size)(const void *arg, int i);
  const void *arg;
} list_t;

/* How many ranks shares of at most `most` elements need. */
static int ranks_for_shares(const list_t *l, int64_t most) {
  int ranks = 1;
  int64_t sum = 0;
  for (int i = 0; i < l->n; i++) {
    int64_t size = l->size(l->arg, i);
    if (sum && sum + size > most) ranks++, sum = 0;
    sum += size;
  }
  return ranks;
}

/* The least size that the largest of the ranks' shares can have. */
static int64_t least_share(const list_t *l, int ranks) {
  int64_t low = 0, high = 0;
  for (int i = 0; i < l->n; i++) {
    int64_t size = l->size(l->arg, i);
    low = size > low ? size : low;
    high += size;
  }
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (ranks_for_shares(l, middle) <= ranks)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int mr_optim_share_from(int n, int64_t (*size)(const void *arg, int i), const void *arg, int ranks,
                        int rank) {
  const list_t l = {n, size, arg};
  int64_t most = least_share(&l, ranks), sum = 0;
  int i = 0;
  for (; rank && i < n; i++) {
    int64_t more = size(arg, i);
    if (sum && sum + more > most) rank--, sum = 0;
    if (!rank) break;
    sum += more;
  }
  return i;
}
