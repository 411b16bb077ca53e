#include "core/train/training_settings.h"

#include "core/base/shape.h"
#include "core/mask/mask_spec.h"

namespace ringscope {

void validate(const TrainingSettings& settings) {
  validate(settings.shape);
  validate(settings.adam);
  validate(AttentionShape{settings.batch, settings.shape.num_heads, settings.shape.num_heads_kv,
                          settings.seqlen, settings.shape.head_dim});
  MaskSpec::parse(settings.mask).for_seqlen(settings.seqlen);
}

}  // namespace ringscope
