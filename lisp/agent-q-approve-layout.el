;;; agent-q-approve-layout.el --- Keys of keyboards that are not Latin  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Which key of a Latin keyboard a letter stands for, by the input methods that Emacs knows.
;; They are looked at when such a letter is first typed while a request waits.

;;; Code:

(require 'cl-lib)
(require 'quail)
(require 'seq)

(defconst agent-q-approve-layout--methods
  '((cyrillic "russian-computer" "ukrainian-computer" "belarusian" "bulgarian-bds"
              "bulgarian-phonetic" "cyrillic-serbian" "cyrillic-macedonian")
    (greek "greek")
    (hebrew "hebrew")
    (arabic "arabic" "farsi-isiri-9147")
    (thai "thai-kesmanee")
    (georgian "georgian-qwerty")
    (devanagari "devanagari-inscript"))
  "The input methods that are like the keyboards of a script.")

(defvar agent-q-approve-layout--tables nil
  "What is known of input methods, each (METHOD . ALIST) from letters to keys.")

(defun agent-q-approve-layout--letter (key)
  "Return the letter that KEY gives at once by the input method, or nil."
  (let* ((map (quail-lookup-key (string key)))
         (definition (and map (null (cdr map)) (quail-map-definition map)))
         (text (and definition (quail-get-current-str 1 definition))))
    (cond ((characterp text) text)
          ((and (stringp text) (= (length text) 1)) (aref text 0)))))

(defun agent-q-approve-layout--table (method)
  "Return the letters of the input method METHOD, an alist to their keys."
  (cdr (or (assoc method agent-q-approve-layout--tables)
           (car (push (cons method (agent-q-approve-layout--read method))
                      agent-q-approve-layout--tables)))))

(defun agent-q-approve-layout--read (method)
  "Read the letters of the input method METHOD, which may be any."
  (pcase (assoc method input-method-alist)
    (`(,_ ,_ quail-use-package ,_ ,_ . ,libraries)
     (with-temp-buffer
       (dolist (library libraries)
         (load library t t))
       (setq quail-current-package (quail-package method))
       (and quail-current-package
            (cl-loop for key from ?! to ?~
                     for letter = (agent-q-approve-layout--letter key)
                     when letter collect (cons letter key)))))))

(defun agent-q-approve-layout-keys (letter)
  "Return the keys that LETTER, which is not ASCII, may stand for.
The user's own input method tells.  Without one there may be several keys, as
keyboards of one script differ."
  (let ((keys (lambda (methods)
                (delete-dups
                 (delq nil (mapcar (lambda (method)
                                     (cdr (assq letter (agent-q-approve-layout--table method))))
                                   methods)))))
        (own (or current-input-method default-input-method)))
    (cond ((<= #xff01 letter #xff5e) (list (- letter #xfee0))) ; full width
          ((and own (funcall keys (list (format "%s" own)))))
          (t (funcall keys (cdr (assq (aref char-script-table letter)
                                      agent-q-approve-layout--methods)))))))

(defun agent-q-approve-layout-composes-p (method key)
  "Whether KEY by METHOD, the function of an input method, gives no letter at once."
  (or (not (eq method #'quail-input-method))
      (and (quail-conversion-keymap) t)
      (and (quail-lookup-key (string key))
           (not (agent-q-approve-layout--letter key)))))

(provide 'agent-q-approve-layout)
;;; agent-q-approve-layout.el ends here
