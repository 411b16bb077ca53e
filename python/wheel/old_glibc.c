/* What GCC's C++ library asks of glibc and releases before 2.36 don't have, for programs that are linked for glibc 2.28
   and run on any later one. Nothing else belongs here: the program's own sources call nothing of it. */
#include <pthread.h>
#include <sys/random.h>
#include <time.h>

/* 2.32: whether there is one thread alone, in which case counts of references need no atomic operations. */
char __libc_single_threaded = 0;

/* 2.36: seeds of std::random_device. */
unsigned arc4random(void) {
  unsigned bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
  }
  return bits;
}

/* Return the time of the system's clock at which `clock` will show `*at`. A change of the system's clock meanwhile ends a
   wait early or late; std::condition_variable looks at its own clock when it wakes. */
static struct timespec on_system_clock(clockid_t clock, const struct timespec* at) {
  struct timespec now, system;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &system);
  long long ns = (at->tv_sec - now.tv_sec + system.tv_sec) * 1000000000LL + at->tv_nsec - now.tv_nsec + system.tv_nsec;
  if (ns < 0) ns = 0;
  return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* 2.30, both. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* at) {
  const struct timespec system = on_system_clock(clock, at);
  return pthread_cond_timedwait(condition, mutex, &system);
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* at) {
  const struct timespec system = on_system_clock(clock, at);
  return pthread_mutex_timedlock(mutex, &system);
}
