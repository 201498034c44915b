// What `memmodel explain` answers.
#ifndef MEMMODEL_SRC_REPORT_EXPLAIN_H_
#define MEMMODEL_SRC_REPORT_EXPLAIN_H_

#include <string>

#include "src/explain/explain.h"
#include "src/report/html.h"

namespace memmodel {

std::string FormatExplanation(const Explanation& explanation, std::size_t groups);
std::string ExplanationToJson(const Explanation& explanation);
HtmlExplanation ForHtml(const Explanation& explanation);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_EXPLAIN_H_
