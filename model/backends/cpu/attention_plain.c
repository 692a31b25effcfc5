/* attention_body.inc compiled for plain C. */
#define ATTENTION mr__attention_plain
#include "model/backends/cpu/attention_body.inc"
