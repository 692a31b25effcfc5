/* The stages of test_fields.c: a source of records with any fields, a map on one of them, and a
   stage that writes every byte of every batch that passes into a file of its number. */
#include <millrace.h>

#include "tests/apps/plugins/fields.h"

/* ---- fields ---- */

typedef struct fields {
  int64_t n, base, set;
  mr_spec_t spec;
} fields_t;

static mr_err_t fields_plan(mr_stage_t *s) {
  fields_t *t = s->state;
  t->spec = fields_of((uint64_t)t->set);
  s->out_spec[0] = t->spec;
  s->out_spec[0].n_records = t->n, s->out_spec[0].n_epochs = 1;
  s->writes = (uint16_t)((1u << t->spec.n_fields) - 1);
  return MR_OK;
}

static mr_err_t fields_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                             mr_rec_t *out) {
  const fields_t *t = s->state;
  for (int i = 0; i < n; i++) {
    out[i].key = (uint64_t)(t->base + index[i]);
    for (int f = 0; f < t->spec.n_fields; f++)
      out[i].field[f].rows =
          fields_value(&t->spec, (uint64_t)t->set, f, out[i].key, out[i].field[f].data);
  }
  return MR_OK;
}

static void fields_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const fields_t *t = s->state;
  out->key = (uint64_t)(t->base + index), out->offset = -1;
  snprintf(out->file, MR_WHERE_MAX, "made");
}

static const mr_opt_t fields_opts[] = {{.name = "n",
                                        .type = MR_OPT_INT,
                                        .offset = offsetof(fields_t, n),
                                        .def = "100",
                                        .lo = 1,
                                        .hi = 1 << 30,
                                        .help = "Records."},
                                       {.name = "base",
                                        .type = MR_OPT_INT,
                                        .offset = offsetof(fields_t, base),
                                        .def = "0",
                                        .lo = 0,
                                        .hi = 1 << 30,
                                        .help = "Key of the first one."},
                                       {.name = "set",
                                        .type = MR_OPT_INT,
                                        .offset = offsetof(fields_t, set),
                                        .def = "0",
                                        .lo = 0,
                                        .hi = 1 << 30,
                                        .help = "Which fields."},
                                       {0}};

static const mr_source_def_t fields_source = {.fetch = fields_fetch, .where = fields_where};
static const mr_stage_def_t fields = {.name = "fields",
                                      .help = "Gives records of any fields.",
                                      .out = {{"out", MR_FLOW_RECORDS, false}},
                                      .opts = fields_opts,
                                      .state_sz = sizeof(fields_t),
                                      .plan = fields_plan,
                                      .source = &fields_source};

/* ---- stir ---- */

typedef struct stir {
  const char *name;
  int field;
} stir_t;

static mr_err_t stir_plan(mr_stage_t *s) {
  stir_t *t = s->state;
  t->field = mr_spec_find(&s->in_spec[0], t->name ? t->name : "");
  if (t->field < 0) return mr_stage_fail(s, MR_ERR_CONFIG, "no field \"%s\"", t->name);
  s->out_spec[0] = s->in_spec[0];
  s->writes = (uint16_t)(1u << t->field);
  return MR_OK;
}

static mr_err_t stir_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const stir_t *t = s->state;
  const mr_value_t *from = &in->field[t->field];
  mr_value_t *to = &out->field[t->field];
  to->rows = fields_stir(&s->in_spec[0].field[t->field], in->key, from->data, from->rows, to->data);
  return MR_OK;
}

static const mr_opt_t stir_opts[] = {{.name = "field",
                                      .type = MR_OPT_STR,
                                      .offset = offsetof(stir_t, name),
                                      .help = "The field.",
                                      .positional = 1},
                                     {0}};
static const mr_map_def_t stir_map = {.run = stir_run};
static const mr_stage_def_t stir = {.name = "stir",
                                    .help = "Changes one field.",
                                    .in = {{"in", MR_FLOW_RECORDS, false}},
                                    .out = {{"out", MR_FLOW_RECORDS, false}},
                                    .opts = stir_opts,
                                    .state_sz = sizeof(stir_t),
                                    .plan = stir_plan,
                                    .map = &stir_map};

/* ---- dump ---- */

typedef struct dump {
  const char *dir;
  int64_t next; /* number of the next batch, in the whole stream */
} dump_t;

static mr_err_t dump_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t dump_open(mr_stage_t *s) {
  dump_t *t = s->state;
  t->next = s->start_number;
  return MR_OK;
}

/* A batch that was written by an earlier life of this process must come as it was. */
static mr_err_t compare(mr_stage_t *s, FILE *f, const char *path, const char *bytes, size_t n) {
  char *was = malloc(n + 1);
  bool same = was && fread(was, 1, n + 1, f) == n && !memcmp(was, bytes, n);
  free(was);
  return same ? MR_OK : mr_stage_fail(s, MR_ERR_DATA, "%s: came again with other bytes", path);
}

static mr_err_t keep(mr_stage_t *s, const mr_buf_t *b) {
  dump_t *t = s->state;
  char path[4096], part[4200];
  size_t n;
  char *bytes = fields_bytes(&s->in_spec[0], b, &n);
  if (!bytes) return mr_stage_no_memory(s, "a record");
  snprintf(path, sizeof path, "%s/%06lld", t->dir, (long long)t->next++);
  snprintf(part, sizeof part, "%s.part", path);
  mr_err_t e = MR_OK;
  FILE *f = fopen(path, "rbe");
  if (f) {
    e = compare(s, f, path, bytes, n);
  } else {
    f = fopen(part, "wbe");
    bool good = f && fwrite(bytes, 1, n, f) == n && !fflush(f) && !rename(part, path);
    if (!good) e = mr_stage_fail(s, MR_ERR_IO, "%s: cannot be written", part);
  }
  if (f) fclose(f);
  free(bytes);
  return e;
}

static mr_err_t dump_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, mr_room(s, 0));
  mr_err_t e = MR_OK;
  for (size_t i = 0; i < k && e >= 0; i++) e = keep(s, b[i]);
  mr_give(s, 0, b, k);
  return e < 0 ? e : k ? MR_OK : mr_idle(s);
}

static const mr_opt_t dump_opts[] = {{.name = "dir",
                                      .type = MR_OPT_STR,
                                      .offset = offsetof(dump_t, dir),
                                      .help = "Folder of the files.",
                                      .positional = 1},
                                     {0}};
static const mr_step_def_t dump_run = {.run = dump_step};
static const mr_stage_def_t dump = {.name = "dump",
                                    .help = "Writes each batch into a file.",
                                    .in = {{"in", MR_FLOW_BATCHES, false}},
                                    .out = {{"out", MR_FLOW_BATCHES, false}},
                                    .opts = dump_opts,
                                    .state_sz = sizeof(dump_t),
                                    .plan = dump_plan,
                                    .open = dump_open,
                                    .step = &dump_run};

static const mr_stage_def_t *const stages[] = {&fields, &stir, &dump, NULL};
const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "fields", .stages = stages};
