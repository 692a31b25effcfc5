/* The profile as files for other programs: a Chrome trace with every call of every run, and JSON
   with the sums.  The report for people is profile's own; these two leave out nothing. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "apps/measure/profile.h"
#include "base/chrome_trace.h"
#include "base/xio.h"

static void trace_call(const mr_profile_t *p, mr_chrome_trace_t *t, int run, int i) {
  const mr_profile_op_t *c = &p->call[i];
  size_t at = (size_t)run * (size_t)p->n + (size_t)i;
  double ns = p->ns[at] > 0 ? (double)p->ns[at] : 1;
  const mr_chrome_arg_t args[] = {{"scope", c->scope, 0},
                                  {"shape", c->shape, 0},
                                  {"GFLOP/s", NULL, c->cost.flop / ns},
                                  {"GB/s", NULL, c->cost.bytes / ns},
                                  {"limit %", NULL, 100 * mr_profile_ideal_ns(p, c) / ns},
                                  {0}};
  mr_chrome_slice(t, 1, c->op, mr_profile_kind_name(mr_profile_kind(p, c)), p->at[at], p->ns[at],
                  args);
}

static void print_trace(const void *profile, FILE *to) {
  const mr_profile_t *p = profile;
  mr_chrome_trace_t t;
  mr_chrome_begin(&t, to, p->n ? p->at[0] : 0);
  mr_chrome_thread(&t, 1, "training step");
  for (int run = 0; run < p->runs && p->n; run++) {
    size_t first = (size_t)run * (size_t)p->n, last = first + (size_t)p->n - 1;
    char name[32];
    snprintf(name, sizeof name, "step %d", run + 1);
    mr_chrome_slice(&t, 1, name, "step", p->at[first], p->at[last] + p->ns[last] - p->at[first],
                    NULL);
    for (int i = 0; i < p->n; i++) trace_call(p, &t, run, i);
  }
  mr_chrome_end(&t);
}

mr_err_t mr_profile_trace(const mr_profile_t *p, const char *path, mr_diag_t *diag) {
  return mr_write_printed(path, print_trace, p, diag);
}

static void add_sum(cJSON *o, const mr_profile_sum_t *s) {
  cJSON_AddNumberToObject(o, "calls", s->calls);
  cJSON_AddNumberToObject(o, "ms", s->ns / 1e6);
  cJSON_AddNumberToObject(o, "gflop", s->flop / 1e9);
  cJSON_AddNumberToObject(o, "mb", s->bytes / 1e6);
  cJSON_AddNumberToObject(o, "limit_ms", s->ideal_ns / 1e6);
}

static cJSON *limits_json(const mr_profile_limits_t *l) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "threads", l->threads);
  cJSON_AddNumberToObject(o, "f32_gflops", l->f32);
  cJSON_AddNumberToObject(o, "bf16_gflops", l->bf16);
  cJSON_AddNumberToObject(o, "copy_gbs", l->copy);
  cJSON_AddNumberToObject(o, "f32_gflops_1", l->f32_one);
  cJSON_AddNumberToObject(o, "bf16_gflops_1", l->bf16_one);
  cJSON_AddNumberToObject(o, "copy_gbs_1", l->copy_one);
  return o;
}

static cJSON *calls_json(const mr_profile_t *p) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < p->n; i++) {
    mr_profile_sum_t s = {0};
    cJSON *o = cJSON_CreateObject();
    mr_profile_add(p, &s, &p->call[i]);
    cJSON_AddStringToObject(o, "op", p->call[i].op);
    cJSON_AddStringToObject(o, "scope", p->call[i].scope);
    cJSON_AddStringToObject(o, "shape", p->call[i].shape);
    cJSON_AddStringToObject(o, "kind", mr_profile_kind_name(mr_profile_kind(p, &p->call[i])));
    add_sum(o, &s);
    cJSON_AddItemToArray(list, o);
  }
  return list;
}

mr_err_t mr_profile_json(const mr_profile_t *p, const char *path, mr_diag_t *diag) {
  cJSON *o = cJSON_CreateObject(), *kinds = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "steps", p->runs);
  cJSON_AddNumberToObject(o, "step_ms", (double)p->wall_ns / p->runs / 1e6);
  cJSON_AddNumberToObject(o, "between_ms", (double)p->outside_ns / p->runs / 1e6);
  cJSON_AddItemToObject(o, "limits", limits_json(&p->limit));
  for (int k = MR_PROFILE_PRODUCT; k <= MR_PROFILE_OTHER; k++) {
    mr_profile_sum_t s = mr_profile_total(p, k);
    cJSON *one = cJSON_AddObjectToObject(kinds, mr_profile_kind_name((mr_profile_kind_t)k));
    add_sum(one, &s);
  }
  cJSON_AddItemToObject(o, "sums", kinds);
  cJSON_AddItemToObject(o, "calls", calls_json(p));
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  mr_err_t e = text ? mr_write_file(path, text, strlen(text), diag)
                    : mr_no_memory(diag, "the profile %s", path);
  cJSON_free(text);
  return e;
}
