// The complex functions of Windows' C library, which Wine 8 names but does not have; NumPy and SciPy need them.
//
// Microsoft's compiler has structures in place of complex numbers, and its long double is a double.
#include <complex.h>

typedef struct {
    float re, im;
} F;
typedef struct {
    double re, im;
} D;

static float complex float_of(F z) { return __builtin_complex(z.re, z.im); }
static double complex double_of(D z) { return __builtin_complex(z.re, z.im); }
static F to_float(float complex z) { return (F){crealf(z), cimagf(z)}; }
static D to_double(double complex z) { return (D){creal(z), cimag(z)}; }

#define MAP(name)                                                  \
    F ms_##name##f(F z) { return to_float(name##f(float_of(z))); } \
    D ms_##name(D z) { return to_double(name(double_of(z))); }     \
    D ms_##name##l(D z) { return to_double(name(double_of(z))); }
#define MEASURE(name)                                        \
    float ms_##name##f(F z) { return name##f(float_of(z)); } \
    double ms_##name(D z) { return name(double_of(z)); }     \
    double ms_##name##l(D z) { return name(double_of(z)); }

MAP(cacos)
MAP(cacosh)
MAP(casin)
MAP(casinh)
MAP(catan)
MAP(catanh)
MAP(ccos)
MAP(ccosh)
MAP(cexp)
MAP(clog)
MAP(conj)
MAP(cproj)
MAP(csin)
MAP(csinh)
MAP(csqrt)
MAP(ctan)
MAP(ctanh)
MEASURE(cabs)
MEASURE(carg)
MEASURE(cimag)
MEASURE(creal)

F ms_cpowf(F x, F y) { return to_float(cpowf(float_of(x), float_of(y))); }
D ms_cpow(D x, D y) { return to_double(cpow(double_of(x), double_of(y))); }
D ms_cpowl(D x, D y) { return to_double(cpow(double_of(x), double_of(y))); }
F ms__FCbuild(float re, float im) { return (F){re, im}; }
D ms__Cbuild(double re, double im) { return (D){re, im}; }
D ms__LCbuild(double re, double im) { return (D){re, im}; }
