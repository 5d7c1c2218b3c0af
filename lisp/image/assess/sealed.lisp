;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What looks at which operator, as it is known once all that looks has arrived. What is entered in the
;;; variables later looks at nothing.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +walkers+ *walkers*
  "From an operator to the function that looks at its forms.")

(define-table +call-checks+ *call-checks*
  "From a function's name to what looks at calls of it.")

(defun walker (operator)
  (cdr (assoc operator +walkers+ :test #'eq)))

(defun call-check (operator)
  (cdr (assoc operator +call-checks+ :test #'eq)))
