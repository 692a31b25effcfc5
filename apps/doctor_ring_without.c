/* io_uring's abilities in a build without liburing: none. */
#include "apps/doctor.h"

void mr_doctor_ring(cJSON *section) {} /* never called: mr_uring_refused reports why */
