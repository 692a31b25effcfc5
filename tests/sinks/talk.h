/* A source of synthetic metrics, and running a graph of it in a folder of its own. */
#ifndef MR_TESTS_SINKS_TALK_H
#define MR_TESTS_SINKS_TALK_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"
#include "metrics/report.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"

static const char *const names[] = {"cat", "dog"};
static const mr_dataset_t synthetic = {"synthetic", 2, names};

/* ---- a source of metrics: steps first..last, then a test record and the final one ---- */

typedef struct talk {
  int64_t first, last, pause_us, next;
} talk_t;

/* Ends the steps early: what follows is the test record and the final one. */
static atomic_bool talk_over __attribute__((unused));

/* Called before each record is given, if set; may change it. */
static void (*talk_before)(mr_report_t *r) __attribute__((unused));

/* What the records are declared to hold beside millrace's own numbers. */
static const mr_metric_def_t *const talk_accuracy[] = {MR_METRIC_OWN(ACCURACY)};
static const mr_metric_list_t talk_usual = {.n = 1, .def = talk_accuracy};
static const mr_metric_list_t *talk_metrics __attribute__((unused)) = &talk_usual;

static const mr_opt_t talk_opts[] = {{.name = "first",
                                      .type = MR_OPT_INT,
                                      .offset = offsetof(talk_t, first),
                                      .unit = "",
                                      .def = "1",
                                      .help = "First step."},
                                     {.name = "last",
                                      .type = MR_OPT_INT,
                                      .offset = offsetof(talk_t, last),
                                      .unit = "",
                                      .def = "40",
                                      .help = "Last step."},
                                     {.name = "pause",
                                      .type = MR_OPT_INT,
                                      .offset = offsetof(talk_t, pause_us),
                                      .unit = "us",
                                      .def = "0",
                                      .help = "Time before each step."},
                                     {0}};

static mr_err_t talk_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_report_spec(NULL, talk_metrics);
  return MR_OK;
}

static mr_err_t talk_open(mr_stage_t *s) {
  talk_t *t = s->state;
  t->next = t->first;
  return MR_OK;
}

static void talk_record(const talk_t *t, mr_report_t *r) {
  int64_t step = t->next <= t->last ? t->next : t->last;
  mr_report_begin(r, t->next <= t->last       ? MR_REPORT_STEP
                     : t->next == t->last + 1 ? MR_REPORT_TEST
                                              : MR_REPORT_FINAL);
  r->step = step;
  r->total_steps = t->last;
  r->epoch = 1;
  r->images = step * 10;
  r->elapsed_s = (double)step * 0.5;
  r->ledger = 0xABCDEF + (uint64_t)step;
  r->dataset = &synthetic;
  mr_report_add(r, MR_METRIC_OWN(LOSS), 2.5 / (double)step);
  mr_report_add(r, MR_METRIC_OWN(ACCURACY), 0.25);
  mr_report_add(r, MR_METRIC_OWN(STEP_S), 0.5);
  if (r->kind == MR_REPORT_TEST) mr_report_confuse(r, 2, &(mr_confused_t){0, 1, 7}, 1);
}

static mr_err_t talk_step(mr_stage_t *s) {
  talk_t *t = s->state;
  mr_buf_t *b;
  if (talk_over && t->next <= t->last) t->last = t->next;
  if (t->next > t->last + 2) return MR_END;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  if (t->pause_us) usleep((useconds_t)t->pause_us);
  talk_record(t, b->data);
  if (talk_before) talk_before(b->data);
  b->size = sizeof(mr_report_t);
  t->next++;
  bool whole = !((const mr_report_t *)b->data)->incomplete;
  e = mr_push(s, 0, b);
  return whole || e < 0 ? e : mr_stage_no_memory(s, "a report");
}

static const mr_stage_def_t talk_def = {
    .name = "talk",
    .help = "Gives metrics.",
    .out = {{.name = "metrics", .flow = MR_FLOW_METRICS}},
    .opts = talk_opts,
    .state_sz = sizeof(talk_t),
    .plan = talk_plan,
    .open = talk_open,
    .step = &(const mr_step_def_t){.run = talk_step},
};

/* ---- running ---- */

static mr_registry_t reg;
static char dir[64];

/* Buffers that every ring holds, 0: the usual number.  As many as there are records, and a lossy
   port loses none, however late its stage gets to run. */
static int talk_depth __attribute__((unused));

static inline mr_err_t run(const char *text, mr_diag_t *diag) {
  *diag = (mr_diag_t){0};
  mr_graph_t *g = mr_graph_create(&reg);
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a graph");
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0 && talk_depth) e = mr_graph_set_depth(g, talk_depth, diag);
  if (e >= 0) e = mr_graph_run(g, diag);
  mr_graph_destroy(g);
  return e;
}

/* Runs with standard output in a file; its text (heap). */
static inline char *run_said(const char *text) {
  char path[96];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/said", dir);
  fflush(stdout);
  int kept = dup(STDOUT_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, STDOUT_FILENO);
  mr_err_t e = run(text, &diag);
  fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(fd);
  if (e < 0) fail_msg("%s", diag.text);
  void *said;
  size_t n;
  assert_int_equal(mr_read_file(path, 1 << 20, &said, &n, &diag), MR_OK);
  return said;
}

/* own: stages of the test, ends at NULL. */
static inline int talk_setup(const mr_stage_def_t *const *own) {
  strcpy(dir, "/tmp/mr-sinks-XXXXXX");
  if (reg.n == 0) {
    mr_registry_add(&reg, own);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  return mkdtemp(dir) ? 0 : -1;
}

static inline int talk_teardown(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

__attribute__((noinline, unused)) static char *read_text(const char *name) {
  char path[128];
  void *text;
  size_t n;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  mr_diag_t diag = {0};
  if (mr_read_file(path, 1 << 24, &text, &n, &diag) < 0) fail_msg("%s", diag.text);
  return text;
}

/* What run says on standard error; heap. */
__attribute__((noinline, unused)) static char *run_complains(const char *text) {
  char path[96];
  snprintf(path, sizeof path, "%s/complaints", dir);
  int kept = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, STDERR_FILENO);
  mr_diag_t diag;
  mr_err_t e = run(text, &diag);
  dup2(kept, STDERR_FILENO);
  close(kept), close(fd);
  if (e < 0) fail_msg("%s", diag.text);
  return read_text("complaints");
}

#endif
