/* A short run of a small graph that each test of a program starts from: its folder, its graph's
   file and two run folders, `whole` with the whole run in it and `other` for what a test makes. */
#ifndef MR_TESTS_APPS_SMALL_RUN_H
#define MR_TESTS_APPS_SMALL_RUN_H

#include "base/xio.h"
#include "tests/apps/program.h"

static program_t p;
static char dir[64], file[96], whole[96], other[96];

/* A group's setup; name: of the folder. */
static inline int small_run(const char *name, const char *graph) {
  snprintf(dir, sizeof dir, "/tmp/mr-%s-XXXXXX", name);
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/small.mr", dir);
  snprintf(whole, sizeof whole, "%s/whole", dir);
  snprintf(other, sizeof other, "%s/other", dir);
  if (mr_write_file(file, graph, strlen(graph), NULL) < 0) return -1;
  RUN(&p, "train", "--graph", file, "--run-dir", whole);
  if (p.status) fprintf(stderr, "%s%s", p.out, p.err);
  return p.status;
}

static inline int small_run_forget(void **state) { return program_forget(dir); }

#endif
