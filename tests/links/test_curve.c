/* What CURVE is refused for is named: each call of ZeroMQ that sets it up fails once, in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "links/curve_key.h"
#include "links/link.h"
#include "tests/links/ends.h"

/* ---- calls that fail on demand, in front of the library's ---- */

static int refused_option, refused_type;
static const char *refused_address;

int zmq_setsockopt(void *socket, int option, const void *value, size_t n) {
  int (*real)(void *, int, const void *, size_t) =
      (int (*)(void *, int, const void *, size_t))dlsym(RTLD_NEXT, "zmq_setsockopt");
  if (option == refused_option) return errno = EINVAL, -1;
  return real(socket, option, value, n);
}

void *zmq_socket(void *context, int type) {
  void *(*real)(void *, int) = (void *(*)(void *, int))dlsym(RTLD_NEXT, "zmq_socket");
  if (refused_type && type == refused_type) return errno = EMFILE, NULL;
  return real(context, type);
}

int zmq_bind(void *socket, const char *address) {
  int (*real)(void *, const char *) = (int (*)(void *, const char *))dlsym(RTLD_NEXT, "zmq_bind");
  if (refused_address && !strcmp(address, refused_address)) return errno = EADDRINUSE, -1;
  return real(socket, address);
}

/* ---- ---- */

static char folder[] = "/tmp/millrace-curve-XXXXXX";

static const char *in_folder(const char *name) {
  static char path[2][128];
  static int turn;
  char *p = path[turn++ % 2];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static mr_err_t open_link(bool bind, mr_diag_t *diag) {
  mr_spec_t spec = ends_spec(ENDS_WIDTH);
  mr_link_cfg_t cfg = {.name = "edge",
                       .address = bind ? "tcp://127.0.0.1:*" : "tcp://127.0.0.1:9",
                       .bind = bind,
                       .key = in_folder("a.key"),
                       .peers = in_folder("a.pub"),
                       .copy = true,
                       .linger_ms = 1};
  *diag = (mr_diag_t){0};
  mr_link_t *l = mr_link_open_out(&cfg, &spec, 0, diag);
  mr_link_close(l);
  return l ? MR_OK : diag->code;
}

static void each_failure_has_its_own_sentence(void **state) {
  static const struct {
    bool bind;
    int option, type;
    const char *address, *want;
    mr_err_t code;
  } cases[] = {
      {true, ZMQ_CURVE_SECRETKEY, 0, NULL, "refuses the secret key: Invalid argument",
       MR_ERR_CONFIG},
      {false, ZMQ_CURVE_PUBLICKEY, 0, NULL, "refuses the public key", MR_ERR_CONFIG},
      {false, ZMQ_CURVE_SERVERKEY, 0, NULL, "refuses the peer's public key", MR_ERR_CONFIG},
      {true, ZMQ_CURVE_SERVER, 0, NULL, "refuses to be the server", MR_ERR_CONFIG},
      {true, 0, ZMQ_REP, NULL, "cannot create the sockets that check peers' keys: Too many",
       MR_ERR_NOMEM},
      {true, 0, 0, "inproc://stop", "cannot bind the sockets that check peers' keys: Address",
       MR_ERR_IO},
  };
  mr_diag_t diag;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    refused_option = cases[i].option ? cases[i].option : -1, refused_type = cases[i].type;
    refused_address = cases[i].address;
    assert_int_equal(open_link(cases[i].bind, &diag), cases[i].code);
    if (!strstr(diag.text, cases[i].want)) fail_msg("%s, want %s", diag.text, cases[i].want);
  }
  refused_option = -1, refused_type = 0, refused_address = NULL;
  if (open_link(true, &diag) < 0 || open_link(false, &diag) < 0) fail_msg("%s", diag.text);
}

static int make_keys(void **state) {
  mr_diag_t diag = {0};
  if (!mkdtemp(folder) || mr_curve_key_make(in_folder("a"), &diag) < 0) return -1;
  return 0;
}

static int remove_keys(void **state) {
  unlink(in_folder("a.key")), unlink(in_folder("a.pub"));
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_failure_has_its_own_sentence)};
  refused_option = -1;
  return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
