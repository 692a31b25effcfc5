/* The environment of a launcher, a line NAME=VALUE each: ranks are within their sizes, or there is
   a sentence. */
#include "base/launcher.h"
#include "tests/fuzz/fuzz.h"

static const char *variable_of_lines(void *arg, const char *name) {
  size_t n = strlen(name);
  for (char *line = arg; *line; line += strlen(line) + 1)
    if (!strncmp(line, name, n) && line[n] == '=') return line + n + 1;
  return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_launch_t l;
  mr_diag_t diag = {0};
  char host[MR_HOST_MAX], *lines = calloc(n + 2, 1);
  for (size_t i = 0, k = 0; i < n; i++) /* lines that are empty would end the list */
    if (data[i] != '\n' && data[i])
      lines[k++] = (char)data[i];
    else if (k && lines[k - 1])
      lines[k++] = 0;
  mr_err_t e = mr_launch_read(variable_of_lines, lines, &l, &diag);
  fuzz_need((e >= 0) != (*diag.text != 0), "a sentence");
  fuzz_need(l.size >= 1 && l.rank >= 0 && l.rank < l.size, "a rank below its size");
  fuzz_need(l.local_size < 0 || (l.local_rank < l.local_size && l.local_size <= l.size),
            "a local rank");
  fuzz_need(l.n_nodes < 0 || l.node < l.n_nodes, "a host of the job");
  fuzz_need(!*l.host || (l.port >= 1 && l.port <= 65535), "a port");
  mr_first_host("LIST", lines, host, NULL);
  fuzz_need(strlen(host) < MR_HOST_MAX, "a host's name");
  free(lines);
  return 0;
}
