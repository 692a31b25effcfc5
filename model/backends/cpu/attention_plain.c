#define ATTENTION mr__attention_plain
#include "model/backends/cpu/attention_body.inc"
