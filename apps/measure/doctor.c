/* millrace doctor: reports what the machine has, which reader and kernels would be chosen, and
   why. */
#include "apps/measure/doctor.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/machine_report.h"
#include "apps/run/run_dir.h"
#include "model/exec/device.h"
#include "pipeline/stage_source.h"

static const mr_flag_t doctor_flags[] = {
    {"--json", NULL, "Prints one JSON object."},
    {"--data", "DIR",
     "Folder of the data, also for the sources of the graph; "
     "default data if it exists, else this folder."},
    {"--rate", "N|RUN",
     "Records a second that the model takes, or the folder of a "
     "run whose last steps say it; compared with what the "
     "servers of the graph's sources give."},
    {"--describe", "cuda[:N]",
     "Measures the limits of that device and prints its description alone, for --device "
     "cuda:described=FILE of mem and explain elsewhere."},
    {0}};

/* Prints each section as a block; numbers and texts as they are. */
static void print_tree(const cJSON *report) {
  for (const cJSON *s = report->child; s; s = s->next) {
    printf("%s\n", s->string);
    for (const cJSON *row = s->child; row; row = row->next) {
      if (cJSON_IsBool(row))
        printf("  %-24s %s\n", row->string, cJSON_IsTrue(row) ? "yes" : "no");
      else if (cJSON_IsNumber(row))
        printf("  %-24s %.10g\n", row->string, row->valuedouble);
      else
        printf("  %-24s %s\n", row->string, row->valuestring);
    }
  }
}

/* Sets the graph's variable $data to --data; without such a variable, the path of each source that
   has one.  A word data=DIR takes precedence. */
static mr_err_t hand_data(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag) {
  const char *folder = mr_args_text(a, "--data");
  char text[MR_RUN_PATH];
  mr_diag_t none = {0};
  for (int i = 0; i < a->n_words; i++)
    if (!strncmp(a->word[i], "data=", 5)) return MR_OK;
  if (!folder) return MR_OK;
  if (snprintf(text, sizeof text, "data=%s", folder) >= (int)sizeof text)
    return mr_fail(diag, MR_ERR_USAGE, "doctor: --data: the path is too long");
  if (mr_graph_override(g, text, &none) >= 0) return MR_OK;
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (!s->def->source || !mr_stage_def_opt(s->def, "path")) continue;
    MR_TRY(mr_graph_set(g, s->name, "path", folder, diag));
  }
  return MR_OK;
}

/* Adds how each source of the graph would be read.  If a source cannot tell (a missing file), its
   failure is the text, and the report continues. */
static mr_err_t add_sources(const mr_args_t *a, cJSON *report, mr_diag_t *diag) {
  mr_graph_t *g;
  double rate;
  MR_TRY(mr_doctor_rate(mr_args_text(a, "--rate"), &rate, diag));
  MR_TRY(mr_graph_from_args(a, 0, &g, diag));
  mr_err_t e = hand_data(a, g, diag);
  if (e >= 0) e = mr_graph_settle(g, diag);
  cJSON *s = cJSON_AddObjectToObject(report, "sources");
  for (int i = 0; e >= 0 && i < mr_graph_n_stages(g); i++) {
    char text[512] = "made in memory";
    mr_stage_t own = *mr_graph_stage_at(g, i);
    mr_diag_t why = {0};
    own.diag = &why;
    if (!own.def->source) continue;
    if (own.def->source->explain && own.def->source->explain(&own, text, sizeof text) < 0)
      mr_report_say(s, own.name, "cannot be read: %s", why.text);
    else
      mr_report_say(s, own.name, "%s", text);
  }
  for (int i = 0; e >= 0 && i < mr_graph_n_stages(g); i++)
    if (mr_graph_stage_at(g, i)->def->source)
      mr_doctor_store(report, mr_graph_stage_at(g, i), rate);
  mr_graph_destroy(g);
  return e;
}

static mr_err_t doctor_print(const mr_args_t *a, const cJSON *report, mr_diag_t *diag) {
  if (!mr_args_text(a, "--json")) {
    print_tree(report);
    return MR_OK;
  }
  char *text = cJSON_PrintUnformatted(report);
  if (!text) return mr_no_memory(diag, "the report");
  puts(text);
  cJSON_free(text);
  return MR_OK;
}

/* Prints a device as a text from which it can be planned for elsewhere. */
static mr_err_t doctor_describe(const char *name, mr_diag_t *diag) {
  const mr_device_t *d;
  mr_diag_t why = {0};
  if (mr_device_open_to_plan(name, &d, &why) < 0)
    return mr_diag_prefix(diag, why.code == MR_ERR_CONFIG ? MR_ERR_USAGE : why.code, &why,
                          "doctor: --describe");
  const mr_device_ops_t *ops = d->backend->device;
  mr_err_t e = ops->write_described
                   ? ops->write_described(d, stdout, diag)
                   : mr_fail(diag, MR_ERR_USAGE,
                             "doctor: --describe %s: backend %s has no described devices, expected "
                             "cuda",
                             name, d->backend->name);
  mr_device_close(d);
  return e;
}

static int doctor_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *device = mr_args_text(a, "--describe");
  if (device) return doctor_describe(device, diag);
  struct stat st;
  const char *folder = mr_args_text(a, "--data");
  if (folder && (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode)))
    return mr_fail(diag, MR_ERR_USAGE, "doctor: --data %s: want a folder", folder);
  if (!folder) folder = stat("data", &st) == 0 && S_ISDIR(st.st_mode) ? "data" : ".";
  if (mr_args_text(a, "--rate") && !a->n_words)
    return mr_fail(diag, MR_ERR_USAGE,
                   "doctor: --rate: want a graph too, whose servers are measured");
  cJSON *report = cJSON_CreateObject();
  if (!report) return mr_no_memory(diag, "the report");
  mr_report_processor(report);
  mr_report_memory(report);
  mr_report_io(report, folder);
  mr_report_gpu(report);
  mr_report_devices(report);
  mr_doctor_ranks(report);
  mr_report_libraries(report);
  mr_err_t e = a->n_words ? add_sources(a, report, diag) : MR_OK;
  if (e >= 0) e = doctor_print(a, report, diag);
  cJSON_Delete(report);
  return e;
}

static const mr_hint_t doctor_words[] = {{"info env", "doctor", NULL}, {0}};

const mr_command_t mr_command_doctor = {
    .name = "doctor",
    .hint = doctor_words,
    .words = "[GRAPH|FILE [NAME=VALUE...]] [--json]",
    .help = "Reports what this machine has, and which reader and kernels would be chosen.",
    .more =
        "\n"
        "With a graph: also how the files of each of its sources would be read, and why.  Files "
        "on\n"
        "servers are measured, about a second for each number of connections: latency, bandwidth "
        "and\n"
        "records a second, and with --rate whether the model would have to wait for them.",
    .flags = doctor_flags,
    .max_words = MR_WORDS_MAX,
    .run = doctor_run,
};
