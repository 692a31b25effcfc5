/* HighwayHash against its authors' vectors: the bytes 0, 1, 2, .. hashed with the key 0, 1, .. 31;
   and the hash of no bytes in a Riegeli file's signature. */
#include "base/highway.h"
#include "tests/vectors.h"

static void the_authors_vectors(void **state) {
  static const uint64_t key[4] = {0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110,
                                  0x1F1E1D1C1B1A1918};
  static const uint64_t want[] = {
      0x907A56DE22C26E53, 0x7EAB43AAC7CDDD78, 0xB8D0569AB0B53D62, 0x5C6BEFAB8A463D80,
      0xF205A46893007EDA, 0x2B8A1668E4A94541, 0xBD4CCC325BEFCA6F, 0x4D02AE1738F59482,
      0xE1205108E55F3171, 0x32D2644EC77A1584, 0xF6E10ACDB103A90B, 0xC3BBF4615B415C15,
      0x243CC2040063FA9C, 0xA89A58CE65E641FF, 0x24B031A348455A23, 0x40793F86A449F33B,
      0xCFAB3489F97EB832, 0x19FE67D2C8C5C0E2, 0x04DD90A69C565CC2, 0x75D9518E2371C504,
      0x38AD9B1141D3DD16, 0x0264432CCD8A70E0, 0xA9DB5A6288683390, 0xD7B05492003F028C,
      0x205F615AEA59E51E, 0xEEE0C89621052884, 0x1BFC1A93A7284F4F, 0x512175B5B70DA91D,
      0xF71F8976A0A2C639, 0xAE093FEF1F84E3E7, 0x22CA92B01161860F, 0x9FC7007CCF035A68,
      0xA0C964D9ECD580FC, 0x2C90F73CA03181FC, 0x185CF84E5691EB9E, 0x4FC1F5EF2752AA9B,
      0xF5B7391A5E0A33EB, 0xB9B84B83B4E96C9C, 0x5E42FE712A5CD9B4, 0xA150F2F90C3F97DC,
      0x7FA522D75E2D637D, 0x181AD0CC0DFFD32B};
  uint8_t data[64];
  for (int i = 0; i < 64; i++) data[i] = (uint8_t)i;
  for (size_t n = 0; n < sizeof want / sizeof *want; n++)
    assert_int_equal(mr_highway64(key, data, n), want[n]);
}

static void the_signature_of_a_riegeli_file(void **state) {
  uint64_t key[4];
  memcpy(key, "Riegeli/records\nRiegeli/records\n", sizeof key);
  assert_int_equal(mr_highway64(key, NULL, 0), 0x72C3B1E9C0139FE1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_authors_vectors),
      cmocka_unit_test(the_signature_of_a_riegeli_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
