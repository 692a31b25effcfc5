#define LANES mr__lanes_plain
#include "model/backends/cpu/lanes_body.inc"
