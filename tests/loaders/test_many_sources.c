/* A source is cheap: of files in one graph, ten times as many take no more threads, a bounded share
   of memory each, and pin no more than a bound of the process, whichever way they are read. */
#include <dirent.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/loaders/streams.h"

#include "tests/graph_text.h" /* after cmocka.h */

enum { FEW = 20, MANY = 220, RECORDS = 4, EACH_MAX = 64 << 10, PINNED_KB_MAX = 64 << 10 };

/* The threads that read for all readers by pread, from the first page on that is not in the cache:
   which run that is, is the kernel's affair. */
enum { POOL = 32 };

static char folder[64];

/* ---- what a run takes, seen from a stage that runs in it ---- */

static struct taken {
  int threads, of_kernel;
  size_t heap;
  long pinned_kb;
} most;

/* Of the process's own; the kernel's for io_uring, which it bounds itself, are counted apart. */
static int count_threads(int *of_kernel) {
  DIR *d = opendir("/proc/self/task");
  int n = 0;
  *of_kernel = 0;
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    enum { IO_WORKER = 0x10 /* PF_IO_WORKER of the kernel, set before the thread is seen */ };
    char path[300];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
    FILE *f = *e->d_name == '.' ? NULL : fopen(path, "r");
    if (!f) continue; /* also one that has just ended */
    int read = fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags);
    fclose(f);
    if (read == 1) *(flags & IO_WORKER ? of_kernel : &n) += 1;
  }
  closedir(d);
  return n;
}

static long pinned_kb(void) {
  char line[256];
  long kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) sscanf(line, "VmPin: %ld kB", &kb);
  fclose(f);
  return kb;
}

static mr_err_t look_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* In the only worker of the batch, which reads all sources. */
static mr_err_t look_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  struct mallinfo2 m = mallinfo2();
  int of_kernel, threads = count_threads(&of_kernel);
  long kb = pinned_kb();
  if (threads > most.threads) most.threads = threads;
  if (of_kernel > most.of_kernel) most.of_kernel = of_kernel;
  if (m.uordblks + m.hblkhd > most.heap) most.heap = m.uordblks + m.hblkhd;
  if (kb > most.pinned_kb) most.pinned_kb = kb;
  return MR_OK;
}

static const mr_stage_def_t mr_stage_look = {
    .name = "look",
    .help = "Notes what the process takes.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = look_plan,
    .map = &(const mr_map_def_t){.run = look_map},
};
static const mr_stage_def_t *const look_table[] = {&mr_stage_look, NULL};

/* ---- files ---- */

static void write_file(const char *name, int i, const void *bytes, size_t n) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s-%d", folder, name, i);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

static void write_npy(int i) {
  uint8_t bytes[128 + 8 * RECORDS] = "\x93NUMPY\1\0\x76\0";
  memset(bytes + 10, ' ', 118);
  int n = snprintf((char *)bytes + 10, 118,
                   "{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", RECORDS);
  bytes[10 + n] = ' ', bytes[127] = '\n';
  for (int k = 0; k < RECORDS; k++)
    memcpy(bytes + 128 + 8 * k, &(int64_t){(int64_t)i * RECORDS + k}, 8);
  write_file("npy", i, bytes, sizeof bytes);
}

/* An archive whose samples have one member, ".bin", of eight bytes. */
static void write_tar(int i) {
  uint8_t bytes[(2 * RECORDS + 2) * 512] = {0};
  for (int k = 0; k < RECORDS; k++) {
    char *head = (char *)bytes + 1024 * k;
    unsigned sum = 0;
    sprintf(head, "%d-%d.bin", i, k);
    sprintf(head + 100, "0000644"), sprintf(head + 124, "%011o", 8), head[156] = '0';
    memcpy(head + 257,
           "ustar\0"
           "00",
           8);
    memset(head + 148, ' ', 8);
    for (int b = 0; b < 512; b++) sum += (uint8_t)head[b];
    sprintf(head + 148, "%06o", sum);
    memcpy(head + 512, &(int64_t){(int64_t)i * RECORDS + k}, 8);
  }
  write_file("tar", i, bytes, sizeof bytes);
}

static int make_files(void **state) {
  strcpy(folder, "/tmp/millrace-sources-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  /* A huge page would count as pinned whole for each small buffer in it. */
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) return -1;
  for (int i = 0; i < MANY; i++) write_npy(i), write_tar(i);
  stream_stages = look_table;
  return 0;
}

static int remove_files(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  free(text);
  unsetenv("MILLRACE_IO");
  return system(command);
}

/* ---- runs ---- */

static struct taken run_sources(const char *source, int n) {
  n_text = 0;
  for (int i = 0; i < n; i++) {
    add_text(source, folder, i);
    add_text(" ! m.\n");
  }
  add_text("mix name=m ! shuffle seed=1 ! look ! batch 64");
  most = (struct taken){0};
  stream_t t = stream_run(text);
  int records = 0;
  for (int i = 0; i < t.n; i++) records += t.element[i].n;
  assert_int_equal(records, n * RECORDS);
  stream_free(&t);
  return most;
}

static void sources_take_no_threads_and_a_bounded_share_of_memory(void **state) {
  static const char *const ways[] = {"auto", "uring", "direct", "pread", "mmap"};
  static const struct {
    const char *text;
    bool reads; /* by the ways */
  } sources[] = {
      {"npy fields=value:%s/npy-%d", false},         /* kept in memory */
      {"npy fields=value:%s/npy-%d memory=0", true}, /* read as they are due */
      {"tar files=%s/tar-%d fields=bin:value", false},
  };
  for (size_t s = 0; s < sizeof sources / sizeof *sources; s++)
    for (size_t w = 0; w < (sources[s].reads ? sizeof ways / sizeof *ways : 1); w++) {
      setenv("MILLRACE_IO", ways[w], 1); /* no other thread runs */
      struct taken few = run_sources(sources[s].text, FEW),
                   many = run_sources(sources[s].text, MANY);
      int pool = sources[s].reads && strcmp(ways[w], "mmap") ? POOL : 0;
      if (few.threads < 2 || many.threads > few.threads + 1 + pool) /* the sink's may be late */
        fail_msg("%s, %s: %d threads for %d sources, %d for %d", sources[s].text, ways[w],
                 few.threads, FEW, many.threads, MANY);
      if (many.of_kernel > 8 * sysconf(_SC_NPROCESSORS_ONLN))
        fail_msg("%s, %s: %d threads of the kernel", sources[s].text, ways[w], many.of_kernel);
      if (many.heap > few.heap + (size_t)(MANY - FEW) * EACH_MAX)
        fail_msg("%s, %s: %zu bytes for %d sources, %zu for %d", sources[s].text, ways[w], few.heap,
                 FEW, many.heap, MANY);
      if (many.pinned_kb > PINNED_KB_MAX)
        fail_msg("%s, %s: %ld kB are pinned", sources[s].text, ways[w], many.pinned_kb);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sources_take_no_threads_and_a_bounded_share_of_memory),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}
