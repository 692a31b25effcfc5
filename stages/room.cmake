mr_needs(mr_stages JPEG stages/decode_jpeg.c stages/jpeg_huffman.c stages/jpeg_idct.c
  stages/jpeg_passes.c stages/jpeg_progressive.c stages/jpeg_resized.c stages/jpeg_rgb.c stages/jpeg_scan.c
  stages/jpeg_smooth.c)
mr_needs(mr_stages PNG stages/decode_png.c stages/png_file.c stages/png_rows.c)
mr_needs(mr_stages WEBP stages/decode_webp.c)
