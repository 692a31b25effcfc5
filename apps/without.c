/* What commands and calls are in a build without an optional library: listed, and refused with the
   reason. MR_WITHOUT_X is defined where mr_needs (cmake/features.cmake) finds X missing. */
#include "apps/bench/bench.h"
#include "apps/cli/cli.h"
#include "apps/look/top_page.h"
#include "apps/look/top_run.h"
#include "apps/run/machine_report.h"
#include "apps/run/process_run.h"
#include "base/feature.h"

#ifdef MR_WITHOUT_ZMQ
mr_err_t mr_bench_link(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  return mr_without(diag, "bench link", "ZMQ");
}

/* Words for a command that is missing are those of the command (run/keys.c, data/data.c). */
static const mr_hint_t missing_keys_words[] = {{"keygen", "keys", NULL}, {0}};

const mr_command_t mr_command_keys = {
    .name = "keys",
    .hint = missing_keys_words,
    .words = "NAME",
    .help = "Generates the keys of a link between hosts: NAME.key (secret) and NAME.pub.",
    .needs = "ZMQ",
};

const mr_command_t mr_command_serve = {
    .name = "serve",
    .words = "GRAPH|FILE [NAME=VALUE...]",
    .help = "Serves the batches of a graph to remote trainers, one shard each.",
    .needs = "ZMQ",
};

static const char several[] = "run: a graph of several processes";

mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag) {
  *g = NULL;
  return mr_without(diag, several, "ZMQ");
}

int mr_process_run(const mr_args_t *a, mr_diag_t *diag) { return mr_without(diag, several, "ZMQ"); }
#endif

#ifdef MR_WITHOUT_CURL_ARCHIVE
static const mr_hint_t missing_data_words[] = {{"download fetch", "data fetch", NULL}, {0}};

const mr_command_t mr_command_data = {
    .name = "data",
    .hint = missing_data_words,
    .words = "fetch",
    .help = "Downloads CIFAR-10 (162 MB), verifies and unpacks it.",
    .more =
        "\nBy hand: cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, "
        "unpacked into\n"
        "the folder data, where train looks for it.",
    .needs = "CURL ARCHIVE",
};
#endif

#ifdef MR_WITHOUT_CURL
/* open always fails, so the other calls are never reached. */
mr_err_t mr_top_page_open(const char *where, mr_top_page_t **out, mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, "top: the address of a page (a run's folder can be read)", "CURL");
}

void mr_top_page_close(mr_top_page_t *p) {}
const char *mr_top_page_name(const mr_top_page_t *p) { return NULL; }
char *mr_top_page_next(mr_top_page_t *p) { return NULL; }
bool mr_top_page_caught_up(const mr_top_page_t *p) { return false; }
const char *mr_top_page_over(mr_top_page_t *p) { return NULL; }
#endif

#ifdef MR_WITHOUT_NCURSES
mr_err_t mr_top_watch(mr_top_t *t, mr_diag_t *diag) {
  return mr_without(diag, "top: the screen (--once prints the numbers)", "NCURSES");
}
#endif

#ifdef MR_WITHOUT_URING
void mr_report_ring(cJSON *section) {} /* never called: mr_uring_refused reports why */
#endif
