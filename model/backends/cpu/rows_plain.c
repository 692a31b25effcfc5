#define ROWS mr__rows_plain
#define ROWS_NAME "plain"
#include "model/backends/cpu/rows_body.h"
