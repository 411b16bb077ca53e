// `ringscope lesson`: lists the lessons, tells one, shows the glossary, or tests the learner's
// version of an exercise.
#pragma once

#include "app/lesson_options.h"

namespace ringscope {

// Returns the exit status: 0, or 1 when one of the lesson's checks fails or the exercise is not
// solved. Throws InputError, RunError.
int lesson_command(const LessonOptions& options);

}  // namespace ringscope
