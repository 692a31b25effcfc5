/* What a stranger may send where a proof is expected, of a request or of an answer: text of any
   kind, and a right proof in which a few characters are changed, cut or added.  Only the proof
   itself is taken, and only for what it was made for. */
#include "loaders/remote/remote_proof.h"
#include "tests/fuzz/fuzz.h"

static char *text_of(const uint8_t *data, size_t n) {
  char *text = malloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0;
  return text;
}

/* Changes text by pairs (place, character); a 0 cuts it there. */
static void change(char *text, size_t room, const uint8_t *data, size_t n) {
  for (size_t i = 0; i + 1 < n; i += 2) text[data[i] % room] = (char)data[i + 1];
  text[room - 1] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char bytes[] = "the bytes of a block", others[] = "the bytes of another";
  mr_proof_about_t about = {"0123456789abcdef", "127.0.0.1:1", "/x/1", 0, sizeof bytes};
  mr_proof_about_t wrong[] = {about, about, about, about, about};
  char asked[MR_PROOF_TEXT], answered[MR_PROOF_TEXT], changed[MR_PROOF_TEXT + 2] = {0};
  wrong[0].token = "0123456789abcdeg", wrong[1].peer = "127.0.0.1:2", wrong[2].path = "/x/2";
  wrong[3].at = 1, wrong[4].size--;
  if (!mr__proof_ask(&about, asked) || !mr__proof_answer(&about, asked, bytes, answered)) return 0;
  char *text = text_of(data, n);
  fuzz_need(!mr__proof_asked(&about, text), "no request by text");
  fuzz_need(!mr__proof_answered(&about, asked, bytes, text), "no answer by text");
  mr__proof_answered(&about, text, bytes, answered);
  free(text);

  strcpy(changed, asked);
  change(changed, sizeof changed, data, n);
  fuzz_need(mr__proof_asked(&about, changed) == !strcmp(changed, asked), "its own request alone");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    fuzz_need(!mr__proof_asked(&wrong[i], asked), "a request for this alone");

  strcpy(changed, answered);
  change(changed, sizeof changed, data, n);
  fuzz_need(mr__proof_answered(&about, asked, bytes, changed) == !strcmp(changed, answered),
            "its own answer alone");
  fuzz_need(!mr__proof_answered(&about, asked, others, answered), "these bytes alone");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    fuzz_need(!mr__proof_answered(&wrong[i], asked, bytes, answered), "an answer for this alone");
  return 0;
}
