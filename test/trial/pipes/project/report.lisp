;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Figures for the report, by pipes.

(in-package :pipes)

(defun growth (before after)
  "How much AFTER is more than BEFORE, in percent of BEFORE."
  (pipe after (- before) (/ before) (* 100)))

(defun margin (income costs)
  "What remains of INCOME after COSTS, in percent of INCOME."
  (pipe income (- costs) (/ income) (* 100)))

(defun summary (before after costs)
  "A line on growth and margin, rounded."
  (format nil "growth ~D %, margin ~D %"
          (pipe (growth before after) round)
          (pipe (margin after costs) round)))
