mr_needs(mr_stages JPEG stages/decode_jpeg.c)
mr_needs(mr_stages PNG stages/decode_png.c)
mr_needs(mr_stages WEBP stages/decode_webp.c)
