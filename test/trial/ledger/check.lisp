;;; SPDX-License-Identifier: GPL-3.0-or-later
(trial:load-project "ledger")
(defun split (amount people) (uiop:symbol-call :ledger :split-amount amount people))
(trial:check (equal (split 1000 3) '(334 333 333)))
(trial:check (equal (split 5 3) '(2 2 1)))
(trial:check (equal (split 900 3) '(300 300 300)))
(trial:check (loop for amount from -40 to 40
                   always (loop for people from 1 to 9
                                for shares = (split amount people)
                                always (and (= people (length shares))
                                            (= amount (reduce #'+ shares))
                                            (<= (- (reduce #'max shares) (reduce #'min shares)) 1)
                                            (equal shares (sort (copy-list shares) #'>))))))
(trial:check-error (split 100 0))
(trial:check-error (split 100 -2))
(trial:check (trial:tests-pass-p "ledger"))
