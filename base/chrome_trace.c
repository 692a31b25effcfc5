/* Trace events in Chrome's JSON format, which Perfetto and chrome://tracing open.  Each event is
   one JSON object on its own line and is printed as it comes, so that a long trace needs no tree in
   memory.  Times count from the origin that the caller gave; the format wants microseconds. */
#include "base/chrome_trace.h"

#include <inttypes.h>

#include "base/text.h"

static void write_json_string(FILE *to, const char *s) {
  fputc('"', to);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      fprintf(to, "\\%c", c);
    else if (c < 0x20 || c >= 0x7f)
      fprintf(to, "\\u%04x", c < 0x20 ? c : '?');
    else
      fputc(c, to);
  }
  fputc('"', to);
}

static void chrome_trace_open_event(mr_chrome_trace_t *t, const char *phase, int thread,
                                    const char *name) {
  fprintf(t->to, "%s{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"name\":", t->any ? ",\n" : "\n", phase,
          thread);
  write_json_string(t->to, name);
  t->any = true;
}

static double microseconds_since(const mr_chrome_trace_t *t, int64_t ns) {
  return (double)(ns - t->origin_ns) / 1e3;
}

void mr_chrome_begin(mr_chrome_trace_t *t, FILE *to, int64_t origin_ns) {
  *t = (mr_chrome_trace_t){to, origin_ns, false};
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", to);
}

void mr_chrome_thread(mr_chrome_trace_t *t, int thread, const char *name) {
  chrome_trace_open_event(t, "M", thread, "thread_name");
  fputs(",\"args\":{\"name\":", t->to);
  write_json_string(t->to, name);
  fputs("}}", t->to);
}

void mr_chrome_slice(mr_chrome_trace_t *t, int thread, const char *name, const char *category,
                     int64_t from_ns, int64_t dur_ns, const mr_chrome_arg_t *args) {
  chrome_trace_open_event(t, "X", thread, name);
  fputs(",\"cat\":", t->to);
  write_json_string(t->to, category);
  mr_fprintf(t->to, ",\"ts\":%.3f,\"dur\":%.3f", microseconds_since(t, from_ns),
             (double)dur_ns / 1e3);
  for (int i = 0; args && args[i].name; i++) {
    fputs(i ? "," : ",\"args\":{", t->to);
    write_json_string(t->to, args[i].name);
    fputc(':', t->to);
    if (args[i].text)
      write_json_string(t->to, args[i].text);
    else
      mr_fprintf(t->to, "%.17g", args[i].number);
  }
  fputs(args && args[0].name ? "}}" : "}", t->to);
}

void mr_chrome_flow(mr_chrome_trace_t *t, int thread, bool begins, const char *name, uint64_t id,
                    int64_t at_ns) {
  chrome_trace_open_event(t, begins ? "s" : "f", thread, name);
  mr_fprintf(t->to, ",\"cat\":\"flow\",\"id\":%" PRIu64 ",\"ts\":%.3f%s}", id,
             microseconds_since(t, at_ns), begins ? "" : ",\"bp\":\"e\"");
}

void mr_chrome_end(mr_chrome_trace_t *t) { fputs("\n]}\n", t->to); }
