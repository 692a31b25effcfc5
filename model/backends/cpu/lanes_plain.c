/* lanes_body.inc compiled for plain C. */
#define LANES mr__lanes_plain
#include "model/backends/cpu/lanes_body.inc"
