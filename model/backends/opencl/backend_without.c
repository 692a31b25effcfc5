/* The place of the OpenCL backend in a build without OpenCL's headers: it compiles nothing and says
   why. */
#include "base/feature.h"
#include "model/exec/backend.h"

static mr_err_t without_check(mr_diag_t *diag) {
  return mr_without(diag, "device opencl", "OPENCL");
}
static mr_err_t without_open(const char *number, mr_diag_t *diag) { return without_check(diag); }
static void without_describe(void (*say)(void *arg, const char *line), void *arg) {
  mr_diag_t why = {0};
  without_check(&why);
  say(arg, why.text);
}
static void *without_take(size_t bytes) { return NULL; }
static void without_give(void *data, size_t bytes) {}
static size_t without_room(void) { return 0; }
static void without_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way) {}

static void without_leave(void) {}

/* check refuses before anything else is called, except what is called for all backends. */
const mr_backend_t mr_backend_opencl = {.name = "opencl",
                                        .align = 256,
                                        .open = without_open,
                                        .check = without_check,
                                        .describe = without_describe,
                                        .take = without_take,
                                        .give = without_give,
                                        .room = without_room,
                                        .copy = without_copy,
                                        .leave = without_leave};
