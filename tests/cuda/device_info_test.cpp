// Whatever driver and devices answer, one line says what is there, what is needed, and what else.
#include "cuda/base/device_info.h"

#include <gtest/gtest.h>

namespace ringscope::cuda {
namespace {

DriverAnswers answers(int driver_version, cudaError_t status, int devices) {
  return {driver_version, 13000, status, "what CUDA says", devices};
}

TEST(DeviceInfo, WithoutADriver) {
  EXPECT_EQ(why_no_device(answers(0, cudaErrorInsufficientDriver, 0), 0, 80),
            "no NVIDIA driver is there; a GPU of compute capability 8.0 or later and a driver for "
            "CUDA 13.0 are needed; use --backend cpu");
}

TEST(DeviceInfo, WithAnOldDriver) {
  EXPECT_EQ(why_no_device(answers(12020, cudaErrorInsufficientDriver, 0), 0, 80),
            "the driver serves CUDA 12.2; one for CUDA 13.0 is needed; update it, or use --backend "
            "cpu");
}

TEST(DeviceInfo, WithoutADevice) {
  for (const auto& none : {answers(13000, cudaErrorNoDevice, 0), answers(13000, cudaSuccess, 0)})
    EXPECT_EQ(why_no_device(none, 0, 90),
              "the driver serves CUDA 13.0 but shows no device (is CUDA_VISIBLE_DEVICES set?); a "
              "GPU of compute capability 9.0 or later is needed; use --backend cpu");
}

TEST(DeviceInfo, WithAnotherError) {
  const std::string why = why_no_device(answers(13000, cudaErrorUnknown, 0), 0, 80);
  EXPECT_NE(why.find("what CUDA says"), std::string::npos) << why;
  EXPECT_NE(why.find("use --backend cpu"), std::string::npos) << why;
}

TEST(DeviceInfo, WithADeviceOfAnotherIndex) {
  EXPECT_EQ(why_no_device(answers(13000, cudaSuccess, 2), 1, 80), "");
  EXPECT_EQ(why_no_device(answers(13000, cudaSuccess, 2), 2, 80),
            "there is no device 2; there are 2, counted from 0");
  EXPECT_NE(why_no_device(answers(13000, cudaSuccess, 2), -1, 80), "");
}

TEST(DeviceInfo, WithAnOldDevice) {
  DeviceInfo device;
  device.name = "Tesla T4";
  device.architecture = 75;
  EXPECT_EQ(why_too_old(device, 80),
            "device 0, Tesla T4, has compute capability 7.5; a GPU of compute capability 8.0 or "
            "later is needed; use --backend cpu");
  EXPECT_EQ(why_too_old(device, 75), "");
}

TEST(DeviceInfo, SaysEitherADeviceOrWhyNot) {
  const DeviceQuery query = query_device();
  EXPECT_EQ(query.device.has_value(), query.why_not.empty());
  EXPECT_EQ(query.why_not.find('\n'), std::string::npos);
  const DeviceQuery future = query_device(0, 9990);
  EXPECT_FALSE(future.device);
  EXPECT_FALSE(future.why_not.empty());
#ifdef RINGSCOPE_MODEL
  ASSERT_TRUE(query.device);
  EXPECT_EQ(query.device->name, "host model");
#endif
}

}  // namespace
}  // namespace ringscope::cuda
