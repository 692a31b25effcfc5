/* millrace inspect: the stages, the settings of one, and what data files hold. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli.h"
#include "apps/inspect_data.h"
#include "loaders/loaders.h"
#include "pipeline/foreign.h"
#include "pipeline/process.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

static const char *type_text(const mr_opt_t *o) {
  switch (o->type) {
    case MR_OPT_INT: return "whole number";
    case MR_OPT_F64: return "number";
    case MR_OPT_BOOL: return "yes or no";
    case MR_OPT_STR:
    case MR_OPT_SECRET: return "text";
    case MR_OPT_ENUM: return o->choices;
    case MR_OPT_RANGE: return "LO:HI";
    case MR_OPT_VEC3: return "A,B,C";
    case MR_OPT_END: break;
  }
  return "";
}

static const char *flow_text(mr_flow_t flow) {
  switch (flow) {
    case MR_FLOW_RECORDS: return "records";
    case MR_FLOW_BATCHES: return "batches";
    case MR_FLOW_METRICS: return "metrics";
    case MR_FLOW_STATE: return "state";
    case MR_FLOW_BYTES: return "bytes";
    case MR_FLOW_NONE: break;
  }
  return "anything";
}

static void print_ports(const char *side, const mr_port_def_t *p) {
  for (int i = 0; i < MR_MAX_PORTS && p[i].name; i++)
    printf("  %-4s %-10s %s%s\n", side, p[i].name, flow_text(p[i].flow),
           p[i].optional ? ", may stay unconnected" : "");
}

/* A row of the table of settings: all cells but what the setting means. */
enum { CELLS = 5 };
typedef struct row {
  const char *cell[CELLS];
  char range[64];
} row_t;

static void to_row(const mr_opt_t *o, row_t *row) {
  row->range[0] = 0;
  if (o->lo != o->hi) snprintf(row->range, sizeof row->range, "[%.10g, %.10g]", o->lo, o->hi);
  const char *none = o->type == MR_OPT_STR || o->type == MR_OPT_SECRET ? "none" : "must be given";
  row->cell[0] = o->name, row->cell[1] = type_text(o);
  row->cell[2] = o->unit ? o->unit : "";
  row->cell[3] = o->def && *o->def ? o->def : none;
  row->cell[4] = row->range;
}

static void print_row(const row_t *row, const int *width) {
  for (int i = 0; i < CELLS; i++) printf("  %-*s", width[i], row->cell[i]);
}

static void widen(const row_t *row, int *width) {
  for (int i = 0; i < CELLS; i++) {
    int n = (int)strlen(row->cell[i]);
    if (n > width[i]) width[i] = n;
  }
}

static void widen_by(const mr_opt_t *o, int *width) {
  row_t row;
  to_row(o, &row);
  widen(&row, width);
}

static void print_option(const mr_opt_t *o, int *width) {
  row_t row;
  to_row(o, &row);
  print_row(&row, width);
  printf("  %s%s\n", o->help, o->positional ? " The bare value means this one." : "");
}

/* The settings of a stage, those that every stage has among them. */
static void each_option(const mr_stage_def_t *d, void (*see)(const mr_opt_t *o, int *width),
                        int *width) {
  for (const mr_opt_t *o = d->opts; o && o->name; o++) see(o, width);
  if (d->parallel)
    see(&(mr_opt_t){.name = "workers",
                    .type = MR_OPT_INT,
                    .unit = "threads",
                    .def = "1",
                    .lo = 1,
                    .hi = 64,
                    .help = "Threads that share the work; the order of the results stays."},
        width);
  if (d != &mr_process_def)
    see(&(mr_opt_t){.name = "name",
                    .type = MR_OPT_STR,
                    .def = d->name,
                    .help = "What this stage is called in the graph."},
        width);
}

static void print_stage(const mr_stage_def_t *d) {
  const row_t head = {.cell = {"setting", "type", "unit", "default", "range"}};
  int width[CELLS] = {0};
  printf("%s: %s\n\n", d->name, d->help);
  print_ports("in", d->in);
  print_ports("out", d->out);
  if (d->in[0].name || d->out[0].name) puts("");
  widen(&head, width);
  each_option(d, widen_by, width);
  print_row(&head, width);
  printf("  meaning\n");
  each_option(d, print_option, width);
}

static void print_room(const char *room, const mr_stage_def_t *const *table) {
  printf("%s\n", room);
  for (int i = 0; table[i]; i++) printf("  %-15s %s\n", table[i]->name, table[i]->help);
}

static int inspect_run(const mr_args_t *a, mr_diag_t *diag) {
  if (a->n_words == 0) {
    print_room("loaders", mr_loaders_stages);
    print_room("stages", mr_stages_stages);
    print_room("sinks", mr_sinks_stages);
    printf("blocks\n  %-15s %s\n", mr_process_def.name, mr_process_def.help);
    return 0;
  }
  const mr_registry_t *reg = mr_all_stages();
  const mr_stage_def_t *d = mr_registry_find(reg, a->word[0]);
  if (!d && !strcmp(a->word[0], mr_process_def.name)) d = &mr_process_def;
  if (d) {
    print_stage(d);
    return 0;
  }
  if (access(a->word[0], F_OK) == 0) return mr_inspect_data(a->word[0], diag);
  char hint[MR_HINT_MAX];
  if (strpbrk(a->word[0], "/."))
    return mr_fail(diag, MR_ERR_USAGE, "inspect: %s: there is no such file or folder%s", a->word[0],
                   mr_path_hint(a->word[0], hint, sizeof hint));
  return mr_fail(diag, MR_ERR_USAGE, "inspect: unknown stage \"%s\"%s", a->word[0],
                 mr_registry_hint(reg, a->word[0], hint, sizeof hint));
}

const mr_command_t mr_command_inspect = {
    .name = "inspect",
    .words = "[STAGE|process|FILE|FOLDER]",
    .help = "Lists the stages, the ports and settings of one, or what data files hold.",
    .more = "\nFiles: .npy, .safetensors, CIFAR-10's and CIFAR-100's binary ones.",
    .max_words = 1,
    .run = inspect_run,
};
