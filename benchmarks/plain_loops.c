/* Plain loops, one thread, as a careful programmer writes them first; benchmarks/plain_c.py compiles them. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* diff1, diff2, diff3 and diff3_2 with the count of pairs that are not finite. */
void formulas(const float *e, const float *b, int64_t n, double *out) {
  double differences = 0, sizes = 0, squares = 0, square_sizes = 0, relative = 0, largest = 0;
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) {
    double difference = fabs((double)e[i] - (double)b[i]), size = fabs((double)b[i]);
    if (!isfinite(e[i]) || !isfinite(b[i])) {
      odd++;
      continue;
    }
    differences += difference;
    sizes += size;
    squares += difference * difference;
    square_sizes += size * size;
    double one = size >= 1e-6 ? difference / (size + 1e-9) : difference;
    relative = one > relative ? one : relative;
    largest = difference > largest ? difference : largest;
  }
  out[0] = differences / (sizes + 1e-9);
  out[1] = sqrt(squares / (square_sizes + 1e-9));
  out[2] = relative;
  out[3] = largest;
  out[4] = (double)odd;
}

/* Numbers between spaces. */
void parse_floats(const char *text, int64_t n, float *out) {
  char *end;
  for (int64_t i = 0; i < n; i++) {
    out[i] = strtof(text, &end);
    text = end;
  }
}
