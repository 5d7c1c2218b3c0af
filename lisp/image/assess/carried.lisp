;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a definition carries: what its code reaches for, whoever calls it. The watch meets what a call
;;; does; the program may call a definition of the call later, where there is no watch.

(cl:in-package "AGENT-Q-IMAGE")

(defun carried-dangers ()
  "The hits that tell what code reaches for, whoever calls it; how it is made is met when it is made."
  (remove-if-not (lambda (hit)
                   (and (member (first hit) '(:reaches :unknown))
                        (or (assoc (second hit) +danger-table+ :test #'string=)
                            (string= (second hit) "uses what is internal to the implementation"))
                        (not (member (second hit) '("runs text as code" "changes how text is read"
                                                  "replaces a definition behind its name")
                                     :test #'string=))))
                 (findings-hits *findings*)))

(defun carried-by (form)
  "A text for each reason to ask before FORM, a definition, is made. The macros that are expanded for that
are not expanded again when it is compiled."
  (call-with-assessment
   (lambda ()
     (let ((expansions (call-keeping-expansions (lambda () (assess-one form)))))
       (when *known*
         (setf (first *known*) (append expansions (first *known*))))
       (setf (findings-hits *findings*) (carried-dangers))
       (hit-texts nil)))))
