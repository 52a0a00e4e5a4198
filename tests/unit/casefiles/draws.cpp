// What C++ case files mean by random_data: prints the bits of the first values, one per line.
// usage: draws uniform|gaussian float|double seed a b count
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

template <typename Real, typename Bits, typename Distribution>
void print(Distribution distribution, int seed, long count) {
  std::default_random_engine engine(seed);
  for (long i = 0; i < count; ++i) {
    Real value = distribution(engine);
    Bits bits;
    std::memcpy(&bits, &value, sizeof(bits));
    std::printf("%llx\n", static_cast<unsigned long long>(bits));
  }
}

template <typename Real, typename Bits>
void run(const std::string &kind, int seed, double a, double b, long count) {
  Real first = a, second = b;
  if (kind == "uniform") {
    print<Real, Bits>(std::uniform_real_distribution<Real>(first, std::nextafter(second, first)), seed, count);
  } else {
    print<Real, Bits>(std::normal_distribution<Real>(first, second), seed, count);
  }
}

int main(int, char **argv) {
  int seed = std::atoi(argv[3]);
  double a = std::atof(argv[4]), b = std::atof(argv[5]);
  long count = std::atol(argv[6]);
  if (std::string(argv[2]) == "float") {
    run<float, std::uint32_t>(argv[1], seed, a, b, count);
  } else {
    run<double, std::uint64_t>(argv[1], seed, a, b, count);
  }
}
