#include "base/err.h"

int main(void) { return mr_err_exit(MR_OK); }
