/* millrace keys: generates a pair of CURVE keys for a link between hosts, as two files, one secret
   and one public.  Existing files are never overwritten: a lost key would lock out every peer that
   knows it. */
#include <stdio.h>

#include "apps/cli/cli.h"
#include "links/curve_key.h"

static int keys_run(const mr_args_t *a, mr_diag_t *diag) {
  MR_TRY(mr_curve_key_make(a->word[0], diag));
  printf("%s.key is secret: keep it here, give it as key=%s.key\n", a->word[0], a->word[0]);
  printf("%s.pub is for the peers: they give it in peers=\n", a->word[0]);
  return 0;
}

static const mr_hint_t keys_words[] = {{"keygen", "keys", NULL}, {0}};

const mr_command_t mr_command_keys = {
    .name = "keys",
    .hint = keys_words,
    .words = "NAME",
    .help = "Generates the keys of a link between hosts: NAME.key (secret) and NAME.pub.",
    .more =
        "\n"
        "Neither file may exist: a key is never overwritten.  An end of a link that listens\n"
        "beyond this machine needs key=NAME.key and, in peers=, the public keys of the peers\n"
        "that it accepts.",
    .min_words = 1,
    .max_words = 1,
    .run = keys_run,
};
