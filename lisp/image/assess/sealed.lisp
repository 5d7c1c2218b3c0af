;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The walkers and the call checks, fixed once all of them have arrived. What code enters in the
;;; variables later has no influence.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +walkers+ *walkers*
  "From operators to the functions that check their forms.")

(define-table +call-checks+ *call-checks*
  "From names of functions to the functions that check calls of them.")

(defun walker (operator)
  (cdr (assoc operator +walkers+ :test #'eq)))

(defun call-check (operator)
  (cdr (assoc operator +call-checks+ :test #'eq)))
