// Whatever driver and devices answer, one line says what is there, what is needed, and what else.
#include "cuda/base/device_info.h"

#include <gtest/gtest.h>

#include "cuda/base/check.h"

namespace ringscope::cuda {
namespace {

// What the driver answers about device `index`, and the whole line that is said.
TEST(DeviceInfo, SaysInALineWhyThereIsNone) {
  const std::string gpu = "a GPU of compute capability 8.0 or later";
  const std::string shows_none =
      "the driver serves CUDA 13.0 but shows no device (is CUDA_VISIBLE_DEVICES set?); " + gpu +
      " is needed; use --backend cpu";
  const struct {
    int driver_version;
    cudaError_t status;
    int devices, index;
    std::string why;
  } cases[] = {
      {0, cudaErrorInsufficientDriver, 0, 0,
       "no NVIDIA driver is there; " + gpu +
           " and a driver for CUDA 13.0 are needed; use --backend cpu"},
      {12020, cudaErrorInsufficientDriver, 0, 0,
       "the driver serves CUDA 12.2; one for CUDA 13.0 is needed; update it, or use --backend cpu"},
      {13000, cudaErrorNoDevice, 0, 0, shows_none},
      {13000, cudaSuccess, 0, 0, shows_none},
      {13000, cudaErrorUnknown, 0, 0,
       "the driver serves CUDA 13.0 but answers: what CUDA says; " + gpu +
           " is needed; use --backend cpu"},
      {13000, cudaSuccess, 2, 1, ""},
      {13000, cudaSuccess, 2, 2, "there is no device 2; there are 2, counted from 0"},
      {13000, cudaSuccess, 2, -1, "there is no device -1; there are 2, counted from 0"}};
  for (const auto& [driver_version, status, devices, index, why] : cases)
    EXPECT_EQ(why_no_device({driver_version, 13000, status, "what CUDA says", devices}, index),
              why);
}

TEST(DeviceInfo, WithAnOldDevice) {
  DeviceInfo device;
  device.name = "Tesla T4";
  device.architecture = 75;
  EXPECT_EQ(why_too_old(device),
            "device 0, Tesla T4, has compute capability 7.5; a GPU of compute capability 8.0 or "
            "later is needed; use --backend cpu");
  device.architecture = 80;
  EXPECT_EQ(why_too_old(device), "");
}

TEST(DeviceInfo, SaysEitherADeviceOrWhyNot) {
  const DeviceQuery query = query_device();
  EXPECT_EQ(query.device.has_value(), query.why_not.empty());
  EXPECT_EQ(query.why_not.find('\n'), std::string::npos);
#ifdef RINGSCOPE_MODEL
  ASSERT_TRUE(query.device);
  EXPECT_EQ(query.device->name, "host model");
#endif
}

// What a kernel wrote before it ended is in the error that its end becomes.
TEST(HangRecords, AreNamedByLateErrors) {
  if (!query_device().device) GTEST_SKIP() << "memory that a device can write needs one";
  const auto text = [](cudaError_t status) {
    return std::string(CudaError(status, "launch", "x.cu", 7).what());
  };
  HangRecord* const record = hang_record_of("00_made_up");
  EXPECT_EQ(record, hang_record_of("00_made_up"));
  EXPECT_EQ(text(cudaErrorLaunchFailure).find("hung"), std::string::npos);
  *record = {1, 1, 3, 2, 128, 1024, 1};
  EXPECT_NE(
      text(cudaErrorLaunchFailure)
          .find("; 00_made_up hung: block (3, 2), thread 128 waits at shared address 1024 for "
                "parity 1"),
      std::string::npos)
      << text(cudaErrorLaunchFailure);
  EXPECT_EQ(text(cudaErrorInvalidValue).find("hung"), std::string::npos);
  *record = {};
}

}  // namespace
}  // namespace ringscope::cuda
